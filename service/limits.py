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
"""Bytes of a file that is imported as a model, and of what another program answers. An import is one event: SQLite
takes a value of 1 GB, Redis a string of 512 MiB, and beyond these an import fails in the store."""

BODY_BYTES_PER_S = 10_000
"""Bytes of a body that give its client a second more than HINGED_REQUEST_S. With more of them a client on a slow line
cannot send a large body. With fewer a client that is slow on purpose holds its connection for longer."""
LEASE_S_MAX = 30 * 86_400
"""Seconds that a lease may last. A candidate whose annotator has gone waits for so long."""
SEARCHED_MAX = 10_000
"""Candidates that one question may look at. All of them are predicted, and the model learns nothing meanwhile."""
HELD_MAX = 1_000
"""Ids that a request for labels may name as held already."""
PAIRS_MAX = 100
"""Pairs of annotators whose agreement an answer tells: there are as many as the square of the annotators."""
READ_EVENTS_MAX = 1_000
READ_BYTES_MAX = 2**24
"""Events, and bytes of them, that one page of examples reads of the log. The page holds them in memory at once."""
RETRY_AFTER_S_MAX = 60
"""Seconds after which a request that found the queue full is told to come again, at most."""

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

# Threads
CALLS_MAX = 8
"""Calls of one model that run at once: its worker's, a snapshot, a step of a job, and who looks something up. Each has
a thread; with fewer a look-up waits for a job."""
SERVER_CALLS_MAX = 64
"""Calls at once that are no model's: creations, imports, exports. Others wait."""
THREADS_IDLE_MAX = 64
"""Threads that are kept while there is nothing to do, 8 MiB of addresses each."""
RETRAININGS_MAX = 2
"""Models that are taught anew, or folded, at once. Each takes the memory of a second model, and a thread."""

# Several processes
HAND_OVER_S = 10.0
"""Seconds that another process may take to take a connection that is handed to it. Clients of a process that hangs get
their 503 so much later; with less so do those of one that a busy machine lets wait.
"""
FOLLOWER_LAG_S = 1.0
"""Seconds for which a follower may be behind a model before it leaves the answer to the owner. With less the owner
answers more of what followers are for; a request that must see a change names a `min_position` instead."""

# What a model keeps. These are a part of what a log means: with another value old logs fold to other states, and
# digests and snapshots of other servers do not agree.
SHADOWS_MAX = 8
"""Challengers of a model. Each costs as much as the model, in memory and time."""
JOBS_KEPT = 100
"""Jobs of a model that have ended. One before them is unknown to who asks for it."""
SET_ASIDE_KEPT = 100
"""Events of a model that were set aside, as its figures tell them."""
MARKS_KEPT = 256
"""Marks on a model's learning curve."""
GIVEN_KEPT = 1_000
"""Answers of annotators that may still be changed."""
ANNOTATORS_KEPT = 256
"""Annotators of a model that are told in numbers."""
REQUESTS_KEPT = 1_000
"""Requests for labels that have the same answer when they come again."""
LEASES_KEPT = 100
"""Leases of one candidate that have ended. An older one is unknown, and a label for it is refused."""
SKIPPED_KEPT = 1_000
"""Annotators who have skipped one candidate. One before them is asked again."""
