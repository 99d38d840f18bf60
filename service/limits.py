"""Limits that nobody sets: each with its unit, and what breaks where it is another.

What an operator may want otherwise is a setting (settings.py). Code reads a limit as `limits.NAME` when it needs it, so
that a test may set another one.
"""

from __future__ import annotations

# Requests
LABEL_CHARS_MAX = 256
"""Characters of a label that is a string. Each answer repeats its labels; a store with a longer label keeps it, but
no request may use that label any more where this is less."""
ID_CHARS_MAX = 256
"""Characters of an example's id. Ids stand in every event and in URLs, which proxies cut at some 8,000 bytes."""
QUERIES_MAX = 1_000
"""Questions in one request for labels. Each question is ranked and leased in one step of the writer, which nothing
else of the model gets into."""
IMPORT_BYTES_MAX = 500_000_000
"""Bytes of a file that is imported as a model, and of an answer of Label Studio. An import is one event: SQLite takes
a value of 1 GB, Redis a string of 512 MiB, and beyond these an import fails in the store."""

# Learning
MICRO_BATCH_EXAMPLES_MAX = 4_096
"""Examples that queued requests are put together to, for one append and one call of the solver. Fewer cost throughput
(one fsync for each batch); with more a request waits longer for those before it."""
PENDING_FLUSH_S = 1.0
"""Seconds between two writes of predictions that wait for their labels. A crash loses the predictions of so long;
shorter intervals make more events."""
EVENTS_KEPT = 1_000
"""Newest events of a followed model in memory. A follower that is further behind reads the log instead."""
SNAPSHOT_S = 3_600.0
"""Seconds after which a change is in a snapshot, however few changes there are. The log that a start folds is so long
at most, and so is what forgetting has to wait for."""

# Streams
FRAME_BYTES_MAX = 2**20
"""Bytes of a frame of a WebSocket. A socket may hold FRAMES_IN_FLIGHT_MAX of such frames in memory."""
FRAMES_IN_FLIGHT_MAX = 256
"""Frames of one WebSocket that are not yet answered. With fewer a client that waits for no answer gets slower: frames
that wait together share one append."""
STREAM_IDLE_S = 300.0
"""Seconds without a frame until a WebSocket is closed, and without reading until a stream is cut. A client that
died without a word holds one of HINGED_STREAMS_MAX for so long."""
HEARTBEAT_S = 15.0
"""Seconds between two pings of a WebSocket, and of silence before an event stream sends a comment. Proxies cut
what is silent for longer than 30 s or 60 s, as a rule."""
TICKET_S = 30.0
"""Seconds that a ticket for a stream is good for. A ticket stands in a URL, and URLs get into logs."""
TICKETS_MAX = 10_000
"""Tickets that are open and unused, some 300 bytes each."""

# Readers
READER_LAG_S = 1.0
"""Seconds for which a reader may be behind a model before it leaves the answer to the server. With less the server
answers more of what readers are for; a request that must see a change names a `min_position` instead."""
