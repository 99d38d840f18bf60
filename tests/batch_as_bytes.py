"""Tells schemathesis, which loads this, that batches of rows are bytes."""

import schemathesis

schemathesis.serializer.alias("application/vnd.hinged.batch", "application/octet-stream")
