"""The types of the server's answers. The server's OpenAPI document describes these types, and the clients' methods
return them.

A part that is NotRequired is missing from some answers; docs/reference/http.md says when it is present. The bodies that
routes take, and the answers of other protocols, are declared next to their routes. A client may have no server, no
pydantic and no NumPy, so these types need none of them. The server reads the types with pydantic. Below Python 3.12,
pydantic needs the TypedDict of typing_extensions.
"""

from hinged.answers.alerts import *
from hinged.answers.changes import *
from hinged.answers.examples import *
from hinged.answers.hooks import *
from hinged.answers.labels import *
from hinged.answers.models import *
from hinged.answers.receipts import *
from hinged.answers.server import *
