"""The types of the server's answers. Its OpenAPI document describes them, and the clients' methods return them.

A part that is NotRequired is not in every answer; docs/reference/http.md says when each is there. The bodies that
routes take, and the answers of other protocols, are declared beside their routes. A client has no server, no pydantic
and no NumPy, so these types need none of them. The server reads them with pydantic, which needs the TypedDict of
typing_extensions below Python 3.12.
"""

from hinged.answers.changes import *
from hinged.answers.examples import *
from hinged.answers.labels import *
from hinged.answers.models import *
from hinged.answers.server import *
