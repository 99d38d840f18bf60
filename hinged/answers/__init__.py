"""What the server's routes answer, as types: its OpenAPI document tells them, and the clients' methods return them.

A part that is NotRequired is not in every answer; docs/reference/http.md says where each is. What a route takes
stands beside the route, and so does what a route of another protocol answers. A client has no server, no pydantic and
no NumPy, so these types need none. pydantic reads them for the server; below Python 3.12 it needs the TypedDict of
typing_extensions.
"""

from hinged.answers.changes import *
from hinged.answers.examples import *
from hinged.answers.labels import *
from hinged.answers.models import *
from hinged.answers.server import *
