"""Limits that are not settings. Each limit says its unit, and what breaks if the limit is changed.

A limit that an operator may want to change is a setting (settings.py). Code reads `limits.NAME` each time it uses the
limit, so that a test can set another value.
"""

from __future__ import annotations

# Requests
LABEL_CHARS_MAX = 256
"""Maximum number of characters in a label that is a string. Every answer repeats its labels. If this limit is lowered,
a store keeps its longer labels, but requests can no longer use them.
"""
ID_CHARS_MAX = 256
"""Maximum number of characters in an example's id. Ids appear in every event and in URLs. Proxies cut URLs at about
8,000 bytes.
"""
P_VALUES_MAX = 1_000
"""Maximum number of p-values in one request. The worker computes all of them in one step, one or more milliseconds
each, and the model learns nothing meanwhile.
"""
QUERIES_MAX = 1_000
"""Maximum number of questions in one request for labels. The worker ranks and leases all the questions in one step, and
the model does nothing else meanwhile.
"""
IMPORT_BYTES_MAX = 500_000_000
"""Maximum number of bytes in a file that is imported as a model, and in an answer from another program. An import is
one event. SQLite accepts a value of 1 GB, and Redis accepts a string of 512 MiB. A larger import fails in the store.
"""

BODY_BYTES_PER_S = 10_000
"""Number of bytes of a body, or of an answer, that give its client one second in addition to HINGED_REQUEST_S. If the
number is raised, a client on a slow connection cannot send a large body. If it is lowered, a deliberately slow client
holds its connection for longer.
"""
LEASE_S_MAX = 30 * 86_400
"""Maximum duration of a lease in seconds. If an annotator leaves, the candidate is blocked for at most this long."""
SEARCHED_MAX = 10_000
"""Maximum number of candidates that the model considers for a question. The model predicts all these candidates and
learns nothing meanwhile.
"""
HELD_MAX = 1_000
"""Maximum number of lease ids that a request for labels may list in `held`."""
PAIRS_MAX = 100
"""Maximum number of pairs of annotators whose agreement an answer lists. The number of pairs grows with the square of
the number of annotators.
"""
READ_EVENTS_MAX = 1_000
READ_BYTES_MAX = 2**24
"""Maximum number of events, and of their bytes, that a page of examples reads from the log. The page keeps all these
events in memory.
"""
LISTED_VALUES_MAX = 100_000
"""Maximum number of values in all x of a page of examples. A larger page takes more memory and more time to write."""
SEGMENTED_MAX = 10_000
"""Number of the newest predictions from which the figures by segment come. Each takes 40 bytes of memory and of each
snapshot, and its values. If this number is changed, old logs lead to different states.
"""
SEGMENTS_SHOWN = 50
"""Maximum number of values of a feature that have figures of their own. The model's figures, which the page fetches
every few seconds, list all of them.
"""
SEGMENT_CHARS_MAX = 100
"""Number of characters that distinguish the values of a segment. Longer strings would fill snapshots."""
URL_CHARS_MAX = 2_000
"""Maximum number of characters in the URL of a hook. Many servers accept no longer URL."""
RETRY_AFTER_S_MAX = 60
"""Maximum Retry-After, in seconds, for a request that finds the queue full."""

# Learning
MICRO_BATCH_EXAMPLES_MAX = 4_096
"""Maximum number of examples in queued requests that are joined for one append and one call of the solver. A smaller
number reduces throughput, because each batch needs one fsync. With a larger number, a request waits longer for earlier
requests.
"""
PENDING_FLUSH_S = 1.0
"""Seconds between two writes of predictions that wait for their labels. A crash loses the predictions made in this
time. Shorter intervals create more events.
"""
EVENTS_KEPT = 1_000
"""Number of newest events of a followed model that stay in memory. A follower that is further behind reads the log
instead.
"""
SNAPSHOT_S = 3_600.0
"""Number of seconds after which a change is saved in a snapshot, even if there are few changes. This time limits how
much of the log a start must read, and how long the removal of forgotten data waits.
"""

# Streams
FRAME_BYTES_MAX = 2**20
"""Maximum number of bytes in a WebSocket frame. A socket may keep FRAMES_IN_FLIGHT_MAX such frames in memory."""
FRAMES_IN_FLIGHT_MAX = 256
"""Maximum number of unanswered frames of one WebSocket. Frames that wait together share one append. With a smaller
number, a client that sends without waiting for answers gets slower.
"""
STREAM_IDLE_S = 300.0
"""Number of seconds without a frame after which a WebSocket is closed, and without reading after which a stream is cut.
A client that died silently occupies one of HINGED_STREAMS_MAX for this long.
"""
HEARTBEAT_S = 15.0
"""Seconds between two pings of a WebSocket. An event stream that is silent for this long sends a comment. Proxies
usually cut a connection that is silent for 30 s or 60 s.
"""
TICKET_S = 30.0
"""Number of seconds that a ticket for a stream is valid. A ticket is part of a URL, and URLs get into logs."""
TICKETS_MAX = 10_000
"""Maximum number of tickets that are valid and unused. Each takes about 300 bytes."""

# Threads
CALLS_MAX = 8
"""Maximum number of simultaneous calls of one model: its worker, a snapshot, a step of a job, and look-ups. Each call
has a thread. With fewer, a look-up waits for a job.
"""
SERVER_CALLS_MAX = 64
"""Maximum number of simultaneous calls that belong to no model: creations, imports and exports. Further calls wait."""
THREADS_IDLE_MAX = 64
"""Number of idle threads that are kept. Each takes 8 MiB of address space."""
RETRAININGS_MAX = 2
"""Maximum number of models that are retrained or rebuilt from the log at once. Each takes a thread and the memory of a
second model.
"""

# Hooks
HOOK_CALL_S = 10.0
"""Maximum number of seconds of one call of a hook: to look up its name, to connect, and to receive the status. A longer
call delays only the further messages of its hook.
"""
HOOK_RETRY_S_MAX = 300.0
"""Maximum number of seconds between two calls of a hook whose receiver accepts nothing. The first pause is a second.
Each further pause is twice as long. With more, messages come later after the receiver is back.
"""
HOOK_RECORD_S = 5.0
"""Number of seconds from an accepted message to the event that records it. After a crash, a receiver gets the messages
of this time again. A shorter time creates more events.
"""
KEYS_MAX = 1_000
"""Maximum number of keys in a key file to which a key is added. Each request compares its key with all of them."""
KEY_MODELS_MAX = 20
"""Maximum number of names and prefixes of models of a key that a request makes. Each request is compared with them."""

# Several processes
HAND_OVER_S = 10.0
"""Number of seconds that another process may take to accept a connection that is handed over to it. With more, clients
of a process that hangs wait longer for their 503. With less, clients of a process on a busy machine get a 503 as well.
"""
FOLLOWER_LAG_S = 1.0
"""Number of seconds by which a follower may lag behind a model before it leaves the answer to the owner. With less, the
owner must answer more of the requests that followers could answer. A request that must see a change gives a
`min_position` instead.
"""

# Limits on what a model remembers. These limits are part of the meaning of a log: if one is changed, an old log leads
# to a different state, and digests and snapshots of other servers no longer agree.
WHOLE_NUMBERS_MAX = 2**26
"""Maximum number of numbers in all x and decision values of a log over which the finishing step optimises. With a
longer log, it optimises over the points. Meanwhile a number takes some 30 bytes of memory.
"""
SHADOWS_MAX = 8
"""Maximum number of challengers of a model. Each challenger costs as much memory and time as the model."""
JOBS_KEPT = 100
"""Number of finished jobs that a model remembers. The server does not know older jobs."""
SET_ASIDE_KEPT = 100
"""Maximum number of set-aside events that a model's figures list."""
MARKS_KEPT = 256
"""Maximum number of marks on a model's learning curve, and of marks that wait for its hooks."""
HOOKS_MAX = 16
"""Maximum number of hooks of a model. Each is a task while a message waits."""
ALERTS_KEPT = 1_000
"""Maximum number of alerts of a model that wait to be acknowledged."""
ALERTS_REOPENED = 100
"""Maximum number of acknowledged alerts of a model that may be reopened."""
GIVEN_KEPT = 1_000
"""Maximum number of annotators' answers that may still be changed."""
ANNOTATORS_KEPT = 256
"""Maximum number of annotators of a model for whom figures are kept."""
REQUESTS_KEPT = 1_000
"""Maximum number of requests for labels that get the same answer when they are sent again."""
LEASES_KEPT = 100
"""Maximum number of ended leases that are kept for one candidate. An older lease is unknown, and a label for it is
refused.
"""
SKIPPED_KEPT = 1_000
"""Maximum number of annotators remembered as having skipped one candidate. Earlier annotators are asked again."""
