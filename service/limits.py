"""Limits that are not settings: each with its unit, and what breaks if it is changed.

A limit that an operator may want to change is a setting (settings.py). Code reads a limit as `limits.NAME` at the
moment of use, so that a test may set another value.
"""

from __future__ import annotations

# Requests
LABEL_CHARS_MAX = 256
"""Characters of a label that is a string. Every answer repeats its labels. If this is lowered, a store keeps its longer
labels, but no request may use them any more."""
ID_CHARS_MAX = 256
"""Characters of an example's id. Ids stand in every event and in URLs, which proxies cut at about 8,000 bytes."""
QUERIES_MAX = 1_000
"""Questions in one request for labels. The writer ranks and leases all of them in one step, and the model does nothing
else meanwhile."""
IMPORT_BYTES_MAX = 500_000_000
"""Bytes of a file that is imported as a model, and of an answer from another program. An import is one event: SQLite
takes a value of 1 GB, Redis a string of 512 MiB. A larger import fails in the store."""

BODY_BYTES_PER_S = 10_000
"""Bytes of a body that give its client one second more than HINGED_REQUEST_S. If it is raised, a client on a slow line
cannot send a large body; if it is lowered, a deliberately slow client holds its connection for longer."""
LEASE_S_MAX = 30 * 86_400
"""Seconds that a lease may last. If an annotator leaves, the candidate waits for at most this long."""
SEARCHED_MAX = 10_000
"""Candidates that a question may look at. All of them are predicted, and the model learns nothing meanwhile."""
HELD_MAX = 1_000
"""Ids of leases that a request for labels may list in `held`."""
PAIRS_MAX = 100
"""Pairs of annotators whose agreement an answer lists. The number of pairs grows with the square of the annotators."""
READ_EVENTS_MAX = 1_000
READ_BYTES_MAX = 2**24
"""Events, and their bytes, that a page of examples reads from the log. The page holds them in memory at once."""
RETRY_AFTER_S_MAX = 60
"""Largest Retry-After, in seconds, of a request that found the queue full."""

# Learning
MICRO_BATCH_EXAMPLES_MAX = 4_096
"""Examples of queued requests that are joined for one append and one call of the solver. Fewer cost throughput (one
fsync per batch); with more, a request waits longer for the requests before it."""
PENDING_FLUSH_S = 1.0
"""Seconds between two writes of predictions that wait for their labels. A crash loses the predictions of this time;
shorter intervals make more events."""
EVENTS_KEPT = 1_000
"""Newest events of a followed model in memory. A follower that is further behind reads the log instead."""
SNAPSHOT_S = 3_600.0
"""Seconds after which a change is in a snapshot, however few changes there are. It bounds the log that a start folds,
and how long forgetting waits."""

# Streams
FRAME_BYTES_MAX = 2**20
"""Bytes of a WebSocket frame. A socket may hold FRAMES_IN_FLIGHT_MAX such frames in memory."""
FRAMES_IN_FLIGHT_MAX = 256
"""Frames of one WebSocket that are not yet answered. Frames that wait together share one append, so with fewer a client
that does not wait for answers gets slower."""
STREAM_IDLE_S = 300.0
"""Seconds without a frame until a WebSocket is closed, and without reading until a stream is cut. A client that died
silently holds one of HINGED_STREAMS_MAX for this long."""
HEARTBEAT_S = 15.0
"""Seconds between two pings of a WebSocket, and of silence before an event stream sends a comment. Proxies usually cut
a connection that is silent for 30 s or 60 s."""
TICKET_S = 30.0
"""Seconds that a ticket for a stream is valid. A ticket stands in a URL, and URLs get into logs."""
TICKETS_MAX = 10_000
"""Tickets that are open and unused, about 300 bytes each."""

# Threads
CALLS_MAX = 8
"""Calls of one model that run at once: its worker, a snapshot, a step of a job, and look-ups. Each has a thread; with
fewer, a look-up waits for a job."""
SERVER_CALLS_MAX = 64
"""Calls at once that belong to no model: creations, imports, exports. Further calls wait."""
THREADS_IDLE_MAX = 64
"""Idle threads that are kept, with 8 MiB of address space each."""
RETRAININGS_MAX = 2
"""Models that are retrained or folded at once. Each takes a thread and the memory of a second model."""

# Several processes
HAND_OVER_S = 10.0
"""Seconds that another process may take to accept a connection that is handed to it. With more, clients of a process
that hangs wait longer for their 503; with less, clients of a process on a busy machine get a 503 as well."""
FOLLOWER_LAG_S = 1.0
"""Seconds that a follower may lag behind a model before it leaves the answer to the owner. With less, the owner answers
more of what followers are for. A request that must see a change names a `min_position` instead."""

# Limits of what a model keeps. They are part of what a log means: if one is changed, old logs fold to different states,
# and digests and snapshots of other servers no longer agree.
SHADOWS_MAX = 8
"""Challengers of a model. Each costs as much memory and time as the model."""
JOBS_KEPT = 100
"""Ended jobs that a model remembers. The server answers that it does not know older jobs."""
SET_ASIDE_KEPT = 100
"""Set-aside events that a model's figures list."""
MARKS_KEPT = 256
"""Marks on a model's learning curve."""
GIVEN_KEPT = 1_000
"""Answers of annotators that may still be changed."""
ANNOTATORS_KEPT = 256
"""Annotators of a model for whom figures are kept."""
REQUESTS_KEPT = 1_000
"""Requests for labels that get the same answer when they are sent again."""
LEASES_KEPT = 100
"""Ended leases that are kept for one candidate. An older lease is unknown, and a label for it is refused."""
SKIPPED_KEPT = 1_000
"""Annotators that are kept as having skipped one candidate. An earlier annotator is asked again."""
