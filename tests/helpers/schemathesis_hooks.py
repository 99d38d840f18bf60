"""Hooks that schemathesis loads. Batches of rows are sent as bytes, and each part of a configuration is tried with one
solver.
"""

import schemathesis

schemathesis.serializer.alias("application/vnd.hinged.batch", "application/octet-stream")


@schemathesis.hook
def before_load_schema(_context, raw_schema):
    """Leave out what earlier solvers in the list have, too. A required part gets the value of the example.

    Nearly all of 11,000 cases would repeat the parts that the configurations of all solvers have.
    """
    content = raw_schema["paths"]["/models/{model}"]["put"]["requestBody"]["content"]["application/json"]
    tried, chosen = set(), []
    for one in content["schema"]["oneOf"]:
        shape = raw_schema["components"]["schemas"][one["$ref"].rpartition("/")[2]]
        new = {name: part for name, part in shape["properties"].items() if name not in tried or name == "solver"}
        again = {name: {"enum": [content["example"][name]]} for name in set(shape["required"]) - new.keys()}
        if new.keys() - tried:
            chosen.append(shape | {"properties": new | again})
        tried |= new.keys()
    content["schema"] = {"oneOf": chosen}
