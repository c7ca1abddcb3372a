//! Every bound of Coalloc, each with its reason. No bound may be defined anywhere else.
//!
//! The bounds are chosen so that no product of accepted values overflows 64 bits. The assertions at the end of this
//! module check the bounds that depend on one another. The file is long because it is one table: a reader looks up a
//! name, and nothing else is anywhere. Left out: the code that checks values against these bounds.

use crate::time::Span;

/// Longest name, in characters. It fits a transaction id (`coordinator-tag-number/attempt`) of the longest
/// coordinator name.
pub const NAME_LEN_MAX: usize = 128;
/// Longest name of a coordinator. Its ids are names too, and add a tag of 8 digits, a number of up to 20 digits, an
/// attempt of up to 10 digits and three separators.
pub const COORDINATOR_NAME_LEN_MAX: usize = 80;
/// Longest name of a trust domain, in characters: as much as the SPIFFE standard allows.
pub const TRUST_DOMAIN_LEN_MAX: usize = 255;
/// Longest name of a trust domain in a folder of certificates: a file system allows 255 bytes, of which the file
/// DOMAIN.crl.pem needs eight for its ending.
pub const TRUST_DOMAIN_FILE_LEN_MAX: usize = 247;
/// Most characters of a filter of a log: every part of the program with a level of its own takes half of that.
pub const LOG_FILTER_LEN_MAX: usize = 1_000;
/// Most bytes of a message about the filter of a log: a filter of [`LOG_FILTER_LEN_MAX`] characters takes 4 kB at most.
pub const LOGGING_MESSAGE_MAX_BYTES: usize = 8 << 10;
/// Shortest time for which a filter of a log may be in force.
pub const LOG_FILTER_LASTS_MIN: Span = Span::from_secs(1);
/// Longest time for which a filter of a log may be in force and then end by itself: a day of looking for something rare.
pub const LOG_FILTER_LASTS_MAX: Span = Span::from_secs(24 * 3_600);
/// Days that a new certificate lasts, unless the command says otherwise: long enough for people who renew by hand once a
/// month, short enough that a stolen key ends by itself.
pub const CERTIFICATE_DAYS_DEFAULT: u16 = 30;
/// Most days that a command lets a certificate last: a year and a month, as much as public authorities allowed for years.
pub const CERTIFICATE_DAYS_MAX: u16 = 397;
/// How long before its making a certificate begins: a daemon whose clock is this slow believes it at once.
pub const CERTIFICATE_BACKDATE: Span = Span::from_secs(5 * 60);
/// How long a certification authority lasts, ten years: nobody wants to give out its certificate more often.
pub const AUTHORITY_LIFETIME: Span = Span::from_secs(3_652 * 86_400);
/// How long a list of revoked certificates is current.
pub const REVOCATION_LIST_LIFETIME: Span = Span::from_secs(30 * 86_400);
/// For how long a certificate that has ended stays in the list: what was made by it, a secret address of a calendar, may be
/// valid for so long. A daemon whose clock is late learns by that, too, that it was revoked.
pub const REVOKED_LISTED: Span = CALENDAR_VALID_MAX;
/// Most certificates that an authority keeps a record of. Beyond, it forgets those that have ended, and then refuses. A
/// list in which all of them are revoked has 1 MB, which every daemon that believes the domain reads.
pub const AUTHORITY_RECORDS_MAX: usize = 20_000;
/// Most bytes of a file that `coalloc certs` reads: the records of a full authority take 6 MB.
pub const CERTIFICATE_FILE_BYTES_MAX: u64 = 16 << 20;

/// Most sites in one request. The paper's requests have 1 to 4 sites, and it writes of "1-8" sites with CPUs. A
/// planner searches products of this number, so larger requests are refused at admission.
pub const REQUEST_SITES_MAX: usize = 32;
/// Most links in one request: a full mesh of 16 sites, or a ring of 32 sites four times over.
pub const REQUEST_LINKS_MAX: usize = 128;
/// Most CPUs that one requested site may ask for, and that a site of the federation may have. Ten million is beyond
/// any machine.
pub const CPUS_MAX: u64 = 10_000_000;
/// Most jobs in a trace: the largest log of the Parallel Workloads Archive of one machine has less. A job takes 48
/// bytes, so a trace takes at most 48 MB.
pub const TRACE_JOBS_MAX: usize = 1_000_000;
/// Most bytes of text of a trace: 536 for each of [`TRACE_JOBS_MAX`] jobs, and lines of archived traces have about
/// 100. Who unpacks a file stops here, however small the packed file is. The text is read in parts and never kept.
pub const TRACE_BYTES_MAX: u64 = 512 << 20;
/// Most bytes of a line of a trace: 18 numbers need a few hundred, and a comment of an archived trace is a paragraph.
pub const TRACE_LINE_BYTES_MAX: usize = 16 << 10;
/// Most notes in the header of a trace that are kept: those of archived traces have a few dozen. With
/// [`TRACE_LINE_BYTES_MAX`] they take at most 16 MB.
pub const TRACE_NOTES_MAX: usize = 1_000;
/// Longest submission time, wait, run time and estimate of a job of a trace, in seconds: 31 years. Even a queue of
/// [`TRACE_JOBS_MAX`] jobs of this length ends before 2^63 seconds.
pub const TRACE_SECONDS_MAX: i64 = 1_000_000_000;
/// Longest horizon in which jobs of a trace are planned, in days: ten years.
pub const TRACE_HORIZON_DAYS_MAX: i64 = 3_650;
/// Longest step between two starts that are tried for a job, and longest slot, in seconds: a day.
pub const TRACE_STEP_MAX_S: i64 = 86_400;
/// Most starts that are tried for a job: one each second of the longest horizon.
pub const TRACE_ATTEMPTS_MAX: u64 = TRACE_HORIZON_DAYS_MAX.unsigned_abs() * 86_400;
/// Most servers of all by-server sites of one resource manager.
pub const SERVERS_MAX: u32 = 10_000;
/// So many idle servers are counted in the time of one look at a timetable: a server takes 10 ns, a look 350 ns; see
/// `protocol/benches/servers.rs`.
pub const SERVERS_A_LOOK: usize = 32;
/// Most slots times servers in packed sets: 256 MB, and as much again for sets of several slots.
pub const SLOT_BITS_MAX: u64 = 1 << 31;
/// Most slots times servers in one tree of idle periods for each slot, where each takes some 200 bytes: 3 GB.
pub const SLOT_TREE_PERIODS_MAX: u64 = 1 << 24;
/// Most storage that one requested site may ask for, and that a site of the federation may have, in GB: 100 PB. With
/// ten times as much, the values of the most expensive plan would not fit 64 bits.
pub const STORAGE_MAX_GB: u64 = 100_000_000;
/// Highest rate of a path or a requested link, in bit/s: 1 Pbit/s.
pub const BANDWIDTH_MAX_BPS: u64 = 1_000_000_000_000_000;
/// Highest unit value, in points per CPU or points per Gbit/s.
pub const UNIT_VALUE_MAX: u64 = 1_000_000;
/// Longest latency that an edge may state or a link may allow. No real path has as much: light in fibre goes round
/// the world in 0.2 s.
pub const LATENCY_MAX: Span = Span::from_secs(10);
/// Highest unit price, in thousandths of a point per hour and per CPU or Gbit/s: the same number of points as the
/// highest unit value.
pub const UNIT_PRICE_MAX: u64 = 1_000 * UNIT_VALUE_MAX;
/// Most bands of a price schedule: one for each quarter of an hour of a day.
pub const PRICE_BANDS_MAX: usize = 96;
/// The best quality that a resource can have, in points.
pub const QUALITY_FULL: u32 = 1_000;

/// Most frames that one query or one request may name. The paper uses N = 10. With more than a few hundred frames,
/// the time between two of them is too short to matter to anyone, and each frame costs a plan.
pub const FRAMES_MAX: u32 = 256;
/// Most periods of a request whose parts have windows of their own: the spans between the instants at which a part
/// begins or ends. Availability is asked for each of them in each frame, and paths are counted in each of them. A
/// chain of seven stages, each with its transfer in and out, has fewer. What has more is a workflow.
pub const REQUEST_PERIODS_MAX: usize = 16;
/// Number of frames when the request does not state one: the paper's N.
pub const FRAMES_DEFAULT: u32 = 10;
/// Edges that a requested link may take when nobody states a number (N_max of Takefusa 2010, Eq. 11). In ELGL, any
/// two sites are joined by at most 4 edges, even with a detour inside each of two domains.
pub const ROUTE_EDGES_DEFAULT: u32 = 4;
/// Largest N_max that a request may ask for.
pub const ROUTE_EDGES_MAX: u32 = 16;
/// Most plans tried for one reservation: one per frame.
pub const ATTEMPTS_MAX: usize = FRAMES_MAX as usize;
/// Most starts that one allocation tries: at every quarter of an hour, almost three years. A call asks for up to
/// [`FRAMES_MAX`] of them.
pub const ALLOCATION_STARTS_MAX: u32 = 100_000;
/// Longest step between two starts that an allocation tries: a day.
pub const ALLOCATION_STEP_MAX: Span = Span::from_secs(86_400);
/// How often one reservation is planned again after other requests took the capacity of all its plans. Each time the
/// planner asks for fresh availability, so a second time is rarely needed.
pub const REPLANS_MAX: u32 = 3;
/// How often a reservation is planned again when its holds are placed at one resource manager after the other. Each
/// refusal by a resource manager causes one new search, in which the refused choice does not come back. The paper's
/// federation has 39 resources. [`RESERVE_PATIENCE`] ends a slow reservation before this count does.
pub const BACKTRACKS_MAX: u32 = 40;
/// Longest backoff before a reservation is planned again for the first time; it doubles each time after that. It is
/// about the time that a Hold, a refusal and an Abort take together: when two requests have collided, one of them is
/// finished before the other tries again.
pub const REPLAN_PAUSE: Span = Span::from_millis(20);
/// Longest backoff before planning again, however often it has doubled. It is small compared with
/// [`RESERVE_PATIENCE`].
pub const REPLAN_PAUSE_MAX: Span = Span::from_millis(500);
/// After so many refusals of one resource, the planner believes the refusals and no longer the availability that the
/// RM reports. A single refusal may come from a rival's hold that is gone by now. A second one, after the RM has
/// again reported enough, shows that the reported availability is too high.
pub const REFUSALS_BELIEVED: usize = 2;
/// Most reports about one reservation: four of each activity of the largest workflow. Each is kept for as long as the
/// reservation is known, in some hundred bytes. Any further report is refused.
pub const REPORTS_MAX: usize = 16_384;
/// Most changes of one reservation, including refused ones: one every ten minutes for a month. The outcome of each
/// change is kept for as long as the reservation is known, in some hundred bytes, because a change that is sent twice
/// must not be made twice. Any further change is refused.
pub const CHANGES_MAX: usize = 4_096;
/// Longest time for all the planning of one request.
pub const PLANNING_TIME_MAX: Span = Span::from_secs(5);

/// Most search nodes of one frame: far more than the paper's sizes need. [`PLANNING_TIME_MAX`] ends a search long
/// before.
pub const PLANNING_NODES_MAX: u64 = 1 << 40;
/// Search nodes of one frame that a planner takes at normal priority: some milliseconds. A search that needs more
/// goes on at a lower priority, so that the protocol comes first.
pub const QUICK_NODES: u64 = 2_000;
/// The same for all frames of a request together, so that a request with 256 frames takes no more normal-priority
/// time than one with ten.
pub const QUICK_NODES_ALL: u64 = 20_000;
/// Search nodes of one frame after which the open part of the search is handed to an outside solver, if there is time
/// for one. Of the frames of 120 sites, 95 % are decided within a tenth of this.
pub const EXACT_NODES_MAX: u64 = 1 << 19;
/// About the time that [`EXACT_NODES_MAX`] nodes take. The outside solver gets what is left of the frame's share.
pub const EXACT_TIME: Span = Span::from_millis(600);
/// Least time that an outside solver gets for one frame, so that rounding does not cut off small models.
pub const SOLVER_TIME_MIN: Span = Span::from_millis(100);
/// Most calls of outside solvers that have overrun their time and still run while nobody waits for them. While there
/// are so many, no solver is called. Each such call has a thread of the lowest priority, and some 10 MB for its
/// model.
pub const LIBRARIES_LEFT_MAX: usize = 4;
/// Requests that may be planned at once or wait for it; one more is answered "busy, try again". Each takes at most
/// [`PLANNING_TIME_MAX`] of the planner threads. The places are shared fairly between users.
pub const PLANNINGS_MAX: usize = 64;
/// Most long searches at a time, and most outside solvers at a time. The others wait for their turn, round robin by
/// user. With two searches, the second one uses the threads that the last frames of the first leave idle.
pub const PLANNING_TURNS: usize = 2;
/// Plans that hold nothing and searches for alternatives of one user at a time. Their queries, views and answers keep the
/// async threads busy at normal priority, and the protocol needs these, so no single user has all turns of them.
pub const WHAT_IF_TURNS_PER_USER: usize = 1;
/// Plans that a coordinator remembers after it has shown them to a client, so that they can be reserved by their
/// digests. The oldest are forgotten first. This is enough for sixteen requests with a plan for each of 256 frames.
pub const SHOWN_PLANS_MAX: usize = 4_096;
/// Bytes that these plans may take: the largest plans are some 100 kB, those of the paper 1 kB.
pub const SHOWN_BYTES_MAX: usize = 16 << 20;
/// Least number of digits of a plan digest that a client may give. With 48 bits, no two remembered plans have the
/// same prefix.
pub const DIGEST_PREFIX_MIN: usize = 12;
/// Occurrences of a series of reservations that one command makes: one on each day of a year. Each is a request of its own,
/// so more would keep a coordinator busy for minutes.
pub const SERIES_OCCURRENCES_MAX: u32 = 366;
/// Lead time of a request that wants to start as soon as possible. Its own two phases may take this long, and its
/// window must not begin before it is booked.
pub const SOONEST_LEAD: Span = Span::from_secs(30);
/// Longest search for alternatives to a request that has no plan. It is as long as a person at a terminal waits, and
/// together with the planning it is well within [`RESERVE_PATIENCE`].
pub const ALTERNATIVES_TIME_MAX: Span = Span::from_secs(5);
/// Time that an outside solver gets for each start or amount that the search for alternatives tries. If the solver
/// takes longer, that start or amount does not count as an alternative.
pub const ALTERNATIVES_SOLVER_TIME: Span = Span::from_millis(500);
/// Rounds of availability queries of that search, each for up to [`FRAMES_MAX`] starts at every RM.
pub const ALTERNATIVES_ROUNDS_MAX: u32 = 64;
/// Plans computed to find one smaller amount: a bisection of 64 bits.
pub const SMALLER_STEPS_MAX: u32 = 64;
/// Steps of the search for a plan that overloads fewer paths. Each step takes away one path from the closest plan of
/// a frame.
pub const COMBINATION_STEPS_MAX: u32 = 16;
/// Up to this many requested sites, every grouping of them is tried when the planner looks for a cut between two
/// groups.
pub const EXPLAIN_GROUPED_SITES_MAX: usize = 6;
/// Work on the explanation of one refused frame, counted in arcs of flow networks that are looked at. It is some tens
/// of milliseconds in a federation of 120 sites, and is never reached in one of 10. What is not proven by then stays
/// unexplained.
pub const EXPLAIN_WORK_MAX: u64 = 500_000;

/// After a refusal, search nodes for the question whether the request has any plan at all while nothing is booked. It
/// is as many as a hard frame takes, well within a second.
pub const NEVER_NODES: u64 = 200_000;
/// Longest time spent on the same question. If it is still open then, a plan counts as possible.
pub const NEVER_TIME: Span = Span::from_secs(1);

/// Shortest reservation. In a shorter one, the clocks of two domains could disagree by more than the window.
pub const DURATION_MIN: Span = Span::from_secs(1);
/// Longest reservation.
pub const DURATION_MAX: Span = Span::from_secs(366 * 86_400);
/// How far ahead an RM accepts bookings when its configuration does not say.
pub const HORIZON_DEFAULT: Span = Span::from_secs(90 * 86_400);
/// Furthest horizon that an RM may configure.
pub const HORIZON_MAX: Span = Span::from_secs(10 * 366 * 86_400);
/// Latest accepted time, in microseconds since 1970: about the year 2255. 2^53 is exact in JSON and in SQLite.
pub const TIME_MAX_US: i64 = 1 << 53;
/// How far in the past a window may begin when it reaches the RM. A request for "now" takes time to get there.
pub const START_GRACE: Span = Span::from_secs(60);

/// How often an RM looks for transactions to forget, when its coordinators have finished some since.
pub const FORGET_EVERY: Span = Span::from_secs(600);
/// Transactions that are looked at together. No Hold is answered meanwhile: about a millisecond.
pub const FORGET_SLICE: usize = 512;
/// Pause between two such looks.
pub const FORGET_PAUSE: Span = Span::from_secs(1);
/// Reservations that a coordinator forgets or ends together. No request is answered meanwhile: about a millisecond.
pub const FORGET_BATCH: usize = 64;
/// A coordinator looks for what may be forgotten at least this often: once a day, in case its clock was set.
pub const FORGET_LATEST: Span = Span::from_secs(24 * 3_600);
/// A coordinator forgets nothing until its next start when its wall clock has gained more than this on its boot clock
/// since the process started: somebody has set it, perhaps wrongly. No correction of a clock that is right is as large.
pub const FORGET_CLOCK_GAIN: Span = Span::from_secs(3_600);
/// How long a coordinator remembers what has ended, unless its configuration says otherwise: a quarter, so that bills and
/// complaints about it can still be looked into.
pub const RETENTION_DEFAULT: Span = Span::from_secs(90 * 24 * 3_600);
/// Shortest retention: an hour, longer than any client of ours sends the same request again.
pub const RETENTION_MIN: Span = Span::from_secs(3_600);
/// Longest retention: ten years, as long as records are kept for the authorities.
pub const RETENTION_MAX: Span = Span::from_secs(3_650 * 24 * 3_600);

/// How long a hold is kept before the RM asks the coordinator for the decision (the value that the NSI peers use).
pub const HOLD_SOFT_DEFAULT: Span = Span::from_secs(120);
/// Shortest soft expiry of a hold. With a shorter one, a slow fsync on the other side would cause needless questions.
pub const HOLD_SOFT_MIN: Span = Span::from_secs(1);
/// Longest time before the RM asks the coordinator about a hold.
pub const HOLD_SOFT_MAX: Span = Span::from_secs(900);
/// Live reservations that one user may have at one coordinator, unless the configuration says otherwise: far more than
/// people and their programs make, and few enough that one user does not fill a ledger.
pub const RESERVATIONS_PER_USER: u32 = 10_000;
/// The most live reservations that a configuration may allow.
pub const RESERVATIONS_QUOTA_MAX: u32 = 1_000_000;
/// Calls a second that one user may make at one coordinator, unless the configuration says otherwise: a program that waits
/// for each answer makes fewer.
pub const CALLS_PER_USER: u32 = 200;
/// The most calls a second that a configuration may allow.
pub const CALLS_QUOTA_MAX: u32 = 1_000_000;
/// A user who was silent may make the calls of this time at once.
pub const CALLS_BURST: Span = Span::from_secs(2);
/// How long a call that is denied, or one too many, waits for its answer. A connection has at most [`STREAMS_MAX`] calls
/// under way, so this bounds how often a client that waits for its answers is turned away.
pub const DENIAL_PAUSE: Span = Span::from_millis(100);
/// Users whose calls are counted at a time. Whoever has been silent for [`CALLS_BURST`] is forgotten; if more are counted
/// all the same, the calls of further users are not.
pub const CALLERS_COUNTED_MAX: usize = 100_000;
/// Holds of one coordinator at one RM that are neither booked nor ended, unless the RM's configuration says otherwise.
/// An honest coordinator has at most a few hundred: it plans [`PLANNINGS_MAX`] requests at a time, and a hold is
/// decided within two round trips. All of these together take some ten megabytes.
pub const HOLDS_PER_COORDINATOR: u32 = 10_000;
/// The same for one user of a coordinator: a load test in one user's name stays below it, and five such users
/// fit beside one another.
pub const HOLDS_PER_USER: u32 = 2_000;
/// Largest quota of holds that may be configured: a million holds take about a gigabyte.
pub const HOLDS_QUOTA_MAX: u32 = 1_000_000;
/// Largest quota of held amounts over time that may be configured, in hours of the kind's unit: a hundred million CPUs
/// for a year. It is exact in JSON.
pub const HELD_HOURS_MAX: u64 = 1_000_000_000_000;
/// The share of all that an RM has until its horizon which one coordinator may hold at a time, in percent, when the RM
/// has several coordinators and its configuration does not say otherwise. It leaves half to the others. A single
/// request that takes more than half of an RM for as long as it books ahead is for its operator to allow.
pub const HELD_SHARE_PERCENT: u32 = 50;
/// Hard expiry: a hold whose coordinator stays out of reach ends at the latest after this time.
pub const HOLD_HARD_DEFAULT: Span = Span::from_secs(900);
/// Largest hard expiry that an RM may configure.
pub const HOLD_HARD_MAX: Span = Span::from_secs(3_600);
/// A hold never lasts into the window that it holds: its hard expiry is at least this long before the start.
pub const HOLD_LEAD: Span = Span::from_secs(1);
/// Shortest hard expiry, even if the window starts at once, so that a request for "now" works.
pub const HOLD_HARD_MIN: Span = Span::from_secs(10);
/// The coordinator decides to commit only while every hold has at least this much time left.
pub const COMMIT_MARGIN: Span = Span::from_secs(2);
/// How long the coordinator waits for all holds before it aborts.
pub const HOLD_PATIENCE: Span = Span::from_secs(7);
/// First backoff before a message is sent again; it doubles up to [`RESEND_MAX`].
pub const RESEND_FIRST: Span = Span::from_millis(200);
/// Most doublings of the backoff between two tries to complete or undo a change that is booked in part. The backoff
/// grows from [`RESEND_FIRST`] to about a minute, because such a change waits for capacity that other bookings have.
pub const MEND_DOUBLINGS_MAX: u32 = 8;
/// Longest backoff between two sendings of one message.
pub const RESEND_MAX: Span = Span::from_secs(10);
/// First backoff between two questions of an RM to the coordinator that decides about a hold; it doubles each time.
pub const ASK_FIRST: Span = Span::from_secs(1);
/// How often that backoff doubles: up to 32 s, which makes some thirty questions until the longest hard expiry.
pub const ASK_DOUBLINGS_MAX: u32 = 5;

/// Backoff before an RM asks again for the decision about a hold: `asked` is the number of questions so far, `left`
/// the time that the hold has left. It is at most half of `left`, so that the last questions come while an answer
/// still counts, but never less than [`ASK_FIRST`].
#[must_use]
pub const fn ask_pause(asked: u32, left: Span) -> Span {
    let doubled = asked.saturating_sub(1);
    let doubled = if doubled < ASK_DOUBLINGS_MAX { doubled } else { ASK_DOUBLINGS_MAX };
    let (usual, half) = (ASK_FIRST.as_us() << doubled, left.as_us() / 2);
    let pause = if usual < half { usual } else { half };
    Span::from_us(if pause > ASK_FIRST.as_us() { pause } else { ASK_FIRST.as_us() })
}

/// Segments that one hold may carry: every edge of the largest request once, or all activities of the largest workflow
/// at one resource manager.
pub const HOLD_SEGMENTS_MAX: usize = 4_096;
/// Most segments, and most names of servers, that an RM keeps of a refused Hold: enough for people to see what it was. A
/// digest stands for the rest, so that whoever is refused over and over does not fill a disk with it.
pub const REFUSED_SEGMENTS_KEPT: usize = 16;
/// Most bytes of notes and of the last plan that a coordinator keeps with a reservation that was refused. Of a longer one neither
/// request nor plan is kept; the request's digest is, so the same id gets the same answer.
pub const REFUSED_NOTES_BYTES_MAX: usize = 16 << 10;

/// End points (sites and border points) of a coordinator that serves parent coordinators. It offers a path between
/// every two of them, 2,016 at most.
pub const UPWARD_POINTS_MAX: usize = 64;
/// Periods of one parent's hold that a child coordinator plans, each as a request of its own. A change has one
/// period, or two when the reservation has begun and the change both adds an amount and moves the end.
/// There are more when parts of both versions have windows of their own, see [`REQUEST_PERIODS_MAX`].
pub const UPWARD_PERIODS_MAX: usize = 40;
/// How often a child coordinator plans a parent's hold again after other requests took the capacity of its plan.
pub const UPWARD_REPLANS_MAX: u32 = 1;
/// How long after a parent's hold the child begins another attempt: well within the parent's [`HOLD_PATIENCE`].
pub const UPWARD_PATIENCE: Span = Span::from_secs(2);
/// Longest search for the reason to give to the parent when its hold has no plan.
pub const UPWARD_SHORT_TIME: Span = Span::from_millis(500);
/// Vertices of one federation. Indices have 32 bits; this bound lets tables of all pairs fit in memory.
pub const VERTICES_MAX: usize = 10_000;
/// Edges of one federation.
pub const EDGES_MAX: usize = 100_000;
/// Most names, or beginnings of names, that the configuration says one resource manager owns: as many as a federation has
/// sites and exchange points.
pub const OWNED_PATTERNS_MAX: usize = VERTICES_MAX;
/// Most problems of a resource manager that a coordinator logs until it is usable again: it may word each one in another way.
pub const PROBLEMS_LOGGED_MAX: usize = 8;
/// Most names of another that a coordinator tells one by one of a resource manager which describes them; it counts the
/// others. A person who reads so many has understood, and the answer about a thousand resource managers stays small.
pub const CLAIMS_SHOWN_MAX: usize = 20;
/// Resources that one RM may own.
pub const RM_RESOURCES_MAX: usize = 10_000;

/// Shortest slot of a grid: one microsecond, the unit of time.
pub const SLOT_MIN: Span = Span::from_us(1);
/// Longest slot of a grid: a day. Coarser slots would lose nearly all that is free between two bookings.
pub const SLOT_MAX: Span = Span::from_secs(86_400);
/// Slots of one availability vector, 16 KiB: somewhat more than [`HORIZON_DEFAULT`] in slots of a minute. The papers
/// use 10,000.
pub const VECTOR_SLOTS_MAX: usize = 131_072;
/// Slots of all vectors of one picture together (slots x links x wavelengths, and those of the clusters): 256 MiB,
/// which is 10,000 slots on each of [`EDGES_MAX`] edges in both directions.
pub const PICTURE_SLOTS_MAX: u64 = 1 << 31;

/// Most data of one task, in bytes: 1 PiB. Its number of bits fits 64 bits, with space left for every rounding.
pub const TASK_BYTES_MAX: u64 = 1 << 50;
/// Most work of one task on each of its CPUs, in million instructions: about 1,400 years at 25,000 MIPS.
pub const TASK_WORK_MAX_MI: u64 = 1 << 50;
/// Speed of the fastest CPU, in million instructions a second: 1,000 times today's.
pub const MIPS_MAX: u64 = 100_000_000;
/// Speed of a CPU when nobody states it, in million instructions a second: the value of both papers on tasks.
pub const MIPS_DEFAULT: u64 = 25_000;
/// Wavelengths of a link that are modelled one by one: slightly more than the C band has at 25 GHz.
pub const WAVELENGTHS_MAX: usize = 192;
/// How far into the future the vectors of a task's picture reach when neither the task nor its options say.
pub const TASK_HORIZON_DEFAULT: Span = Span::from_secs(3_600);
/// Slots that a vector usually has: the papers' `u`.
pub const TASK_SLOTS_USUAL: i64 = 10_000;
/// Most guard slots of a picture: more than any path has links.
pub const GUARD_SLOTS_MAX: u32 = 1_000;
/// Most plans of one task that a client may ask for.
pub const TASK_PLANS_MAX: usize = 64;
/// How often a task may be planned in all when its request does not say. Each refusal has reported what is free at
/// that resource manager; a fourth refusal shows that the resource is contended.
pub const TASK_TRIES_DEFAULT: u32 = 4;
/// Most tries that the request of a task may ask for, counted as in [`TASK_TRIES_DEFAULT`].
pub const TASK_TRIES_MAX: u32 = 16;
/// Most bytes of a recorded workflow that is imported, unpacked: ten times the largest one of WfCommons with so many
/// activities.
pub const WORKFLOW_FILE_BYTES_MAX: u64 = 64 << 20;
/// Most activities of a workflow. The largest workflows of WfCommons that somebody plans as one are of this size.
pub const WORKFLOW_ACTIVITIES_MAX: usize = 4_096;
/// Most dependencies of a workflow: pairs of a data item and an activity that needs it.
pub const WORKFLOW_DEPENDENCIES_MAX: usize = 16_384;
/// Time from `ready` to the deadline of a workflow that states none, and time after a deadline in which a coordinator
/// looks for the earliest finish of a workflow that misses it.
pub const WORKFLOW_DEADLINE_DEFAULT: Span = Span::from_secs(7 * 86_400);
/// Length of a slot in which live workflows are planned: starts and durations are multiples of it. People write
/// reservations in seconds, and a second of guard costs nobody anything.
pub const WORKFLOW_SLOT: Span = Span::from_secs(1);
/// Time between a workflow's planning and its first segment: that of one long planning and two rounds of messages.
pub const WORKFLOW_LEAD: Span = Span::from_secs(10);
/// When a workflow is planned again after a refusal, what stays of its plan begins no sooner than this from then: time
/// for two rounds of messages.
pub const WORKFLOW_KEPT_LEAD: Span = Span::from_secs(2);
/// First backoff before a workflow is revised by its reports again, because another change was under way or planning
/// was busy; it doubles each time. It is about the time that a change takes.
pub const REVISION_PAUSE: Span = Span::from_millis(50);
/// Longest such backoff.
pub const REVISION_PAUSE_MAX: Span = Span::from_secs(5);
/// First backoff before a revision is tried again that was refused because a resource manager did not answer; it doubles
/// each time.
pub const REVISION_RETRY: Span = Span::from_secs(5);
/// Longest such backoff. Each try counts as a change: with this one, [`CHANGES_MAX`] changes last two weeks.
pub const REVISION_RETRY_MAX: Span = Span::from_secs(300);
/// Longest planning of one workflow.
pub const WORKFLOW_PLANNING_MAX: Span = Span::from_secs(5);
/// Placements that a workflow's planning takes at normal priority: about 50 ms. A planning that needs more goes on
/// at a lower priority.
pub const WORKFLOW_QUICK_PLACEMENTS: u64 = 20_000;
/// Most activities that run at the same time as one synchronous set: as many as a co-allocation has sites.
pub const SYNC_MEMBERS_MAX: usize = REQUEST_SITES_MAX;
/// Most channels inside one synchronous set: as many as a co-allocation has links.
pub const SYNC_CHANNELS_MAX: usize = REQUEST_LINKS_MAX;
/// Placements of a synchronous set in one window whose data come too late before the planner goes on to a later
/// window. Each costs some 20 us. Of 64-activity workflows under load, one set in a hundred has more of them.
pub const SET_REFUSALS_MAX: u32 = 64;
/// How often a planner of workflows may give an earlier synchronous set another placement when nobody states it.
pub const DISCREPANCIES_DEFAULT: u32 = 2;
/// Most such discrepancies that a request may ask for. The number of searches grows with a power of it.
pub const DISCREPANCIES_MAX: u32 = 8;
/// Time between a task's planning and its first segment when the coordinator's configuration does not say: the time
/// for one planning and one round of messages.
pub const TASK_LEAD_DEFAULT: Span = Span::from_millis(50);
/// Longest planning of a task. A plan can be older than its picture by this much.
pub const TASK_PLANNING_MAX: Span = Span::from_secs(1);
/// How often a task is planned again with a longer lead because the planning ended after the start of the plan.
pub const TASK_LATE_MAX: u32 = 3;
/// Most slots in one answer to a client that looks at a picture.
pub const PICTURE_SHOWN_SLOTS_MAX: u32 = 4_096;
/// First backoff before a stream of profiles that has ended is opened again; it doubles each time.
pub const PROFILES_RETRY: Span = Span::from_millis(100);
/// Longest backoff before a stream of profiles is opened again.
pub const PROFILES_RETRY_MAX: Span = Span::from_secs(5);
/// A stream of profiles that brings nothing for so long is given up: five times the interval of its signs of life,
/// plus the longest added delay.
pub const PROFILES_SILENCE_MAX: Span =
    Span::from_us(5 * UPDATE_PROGRESS.as_us() + UPDATE_DELAY_MAX.as_us());
/// How often a picture forgets what was free in the past.
pub const PICTURE_SWEEP: Span = Span::from_secs(1);

/// Largest weight of an edge, and largest limit on a sum of weights, in routing under constraints. Products of four
/// fit 128 bits. In microseconds it is half an hour.
pub const ROUTE_WEIGHT_MAX: u64 = (1 << 31) - 1;
/// Paths that a multi-cost search remembers at a time.
pub const SEARCH_PATHS_MAX: usize = 1 << 20;
/// 64-bit words of the vectors of those paths: 256 MiB, which is 213,000 paths of 10,000 slots. When several searches
/// run at once, each may take this much.
pub const SEARCH_WORDS_MAX: usize = 1 << 25;

/// Links inside one network domain. A hold looks at each of them, on the thread that owns the ledger.
pub const INNER_LINKS_MAX: usize = 1_000;
/// Most inner links on the route of one disclosed path: a ring of 64 switches, the long way round.
pub const INNER_ROUTE_LINKS_MAX: u32 = 64;
/// The same when the configuration does not say.
pub const INNER_ROUTE_LINKS_DEFAULT: u32 = 16;
/// Routes listed for each disclosed path, to be tried after the best one.
pub const INNER_WAYS: usize = 16;
/// Search steps to list those routes: in a network full of short cuts there are more routes than can be listed.
pub const INNER_WAYS_NODES: usize = 20_000;
/// Up to this many demands, routes are searched with backtracking when no greedy order fits.
pub const INNER_SEARCH_DEMANDS: usize = 16;
/// Routes tried in such a search: some milliseconds, during which the RM answers nobody else.
pub const INNER_SEARCH_NODES: usize = 1_000;
/// Bookings routed anew in one search that makes space for a hold: the same kind of bound, for the same reason.
pub const INNER_MOVE_EFFORT: usize = 500;
/// Amounts tried to find out how much would be free if other bookings were routed anew.
pub const INNER_MOVE_GUESSES: usize = 4;
/// How long the thread that owns a ledger goes on with reads before inputs come first again; it always makes at least
/// one read. It is less than an fsync takes on a slow disk, so that holds are not delayed noticeably.
pub const READS_TIME: Span = Span::from_millis(2);
/// Looks at a timetable that a query may take before the thread that owns the ledger serves the protocol again: some
/// milliseconds. It is enough for ten frames of 400 resources.
pub const QUERY_SLICE_WORK: usize = 4_096;
/// Searches for new routes of other bookings in one query, shared out evenly over its frames: some hundred
/// milliseconds in all where 60 bookings are in the way, well within [`QUERY_PATIENCE`]. When they are used up, the
/// answer states what a path has free without moving any booking; a hold may find more.
pub const INNER_QUERY_SEARCHES: usize = 32;
/// Bookings routed anew in one of those searches: a search that succeeds does so early.
pub const INNER_QUERY_EFFORT: usize = 64;
/// What one of those searches counts for, in looks at a timetable: a slice of a query has one search.
pub const INNER_SEARCH_WORK: usize = QUERY_SLICE_WORK;
/// Segments examined for movable bookings in the time of one look at a timetable.
pub const INNER_ENTRIES_A_LOOK: usize = 16;
/// A booking that begins within this time is never routed anew: by then, whoever sets up the equipment has read its
/// route.
pub const INNER_MOVE_LEAD: Span = Span::from_secs(30);

/// Changes of profiles that a resource manager remembers for subscribers that are behind: some 3 MB, or a minute at a
/// thousand changes a second. A subscriber that has missed more gets a snapshot.
pub const CHANGES_KEPT: usize = 65_536;
/// Windows of all resources together in one delta of a resource manager whose resources change together (paths over
/// inner links): some milliseconds to put together. With more windows, the subscriber gets a snapshot.
pub const TOUCHED_MAX: usize = 65_536;
/// With a threshold strategy, how often per update period the publisher checks whether enough has changed. Each check
/// costs what has changed since the last update.
pub const THRESHOLD_LOOKS: i64 = 100;
/// Longest pause between two such checks: an update that is due "at once" is at most this late.
pub const THRESHOLD_PAUSE_MAX: Span = Span::from_millis(100);
/// Steps of the profiles of one resource manager in a picture, about 160 MB. No honest resource manager has so many,
/// because its timetables and its ledger would be larger still.
pub const PICTURE_STEPS_MAX: usize = 10_000_000;
/// Steps of profiles in one update, about 20 kB. A larger snapshot comes in pieces.
pub const UPDATE_STEPS_MAX: usize = 1_024;
/// Parts of one update: each part has at least one step.
pub const UPDATE_PARTS_MAX: usize = UPDATE_STEPS_MAX;
/// Windows of one resource manager of which a scheduler has newer facts than the last update: those of the holds that
/// may be answered while an update is on its way.
pub const FACTS_KEPT: usize = 4_096;
/// Shortest period of updates.
pub const UPDATE_PERIOD_MIN: Span = Span::from_millis(1);
/// Longest period of updates. A scheduler that wants fewer updates should query instead.
pub const UPDATE_PERIOD_MAX: Span = Span::from_secs(3_600);
/// Longest added delay of updates, used in experiments.
pub const UPDATE_DELAY_MAX: Span = Span::from_secs(60);
/// Updates that an added delay may keep back for one subscriber, some 2 MB together with their steps. When so many
/// are kept back, no more are made until one has left; the next update contains what has changed in the meantime.
pub const UPDATES_DELAYED_MAX: usize = 4_096;
/// Steps in the updates that an added delay may keep back, see [`UPDATES_DELAYED_MAX`].
pub const UPDATE_STEPS_DELAYED_MAX: usize = 64 * UPDATE_STEPS_MAX;
/// Shortest time between two checks for one subscriber, so that the cost for the thread that owns the ledger does not
/// grow with the rate of changes.
pub const UPDATE_PAUSE: Span = Span::from_millis(1);
/// A subscriber that has received nothing for so long is sent a message that nothing has changed.
pub const UPDATE_PROGRESS: Span = Span::from_secs(1);

/// Refusals for lack of disk space that a resource manager remembers. Each counts as one plus the segments of its
/// order: about 8 MB in all. At a hundred refusals of one segment a second, this is five minutes, which is longer
/// than any message is on its way.
pub const ROOM_REFUSALS_KEPT: usize = 65_536;
/// Least reserved space of a ledger in its main file, in bytes (I17). It is kept for the ends of what has begun: some
/// 7,500 records of 250 bytes, more than a node has holds at a time. A larger ledger reserves a quarter of its size,
/// up to [`LEDGER_ROOM_MAX`].
pub const LEDGER_ROOM_MIN: u64 = 2 << 20;
/// Most reserved space of a ledger in its main file, in bytes: the ends of some 130,000 holds and bookings.
pub const LEDGER_ROOM_MAX: u64 = 32 << 20;
/// Reserved space for the write-ahead log, in bytes: the thousand pages after which it starts again from its
/// beginning (4.1 MB), and the last batch before that.
pub const LEDGER_LOG_ROOM: u64 = 6 << 20;
/// Free bytes, beyond the reserved space, at which new holds are admitted again after the disk was full. Without this
/// margin, every freed record would admit one hold and then close the disk again.
pub const LEDGER_ROOM_MARGIN: u64 = 1 << 20;
/// Free bytes, beyond the reserved space, below which the disk counts as full: what one batch of large holds takes.
pub const LEDGER_FREE_MIN: u64 = 512 << 10;
/// An append that takes longer than this causes a warning: everything in flight at the node waits for it.
pub const SLOW_SYNC: Span = Span::from_secs(1);

/// Largest message that a server decodes, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 1 << 20;
/// Largest message of the Workflows service that a coordinator decodes, in bytes. [`WORKFLOW_ACTIVITIES_MAX`]
/// activities and [`WORKFLOW_DEPENDENCIES_MAX`] dependencies with names of [`NAME_LEN_MAX`] characters, and a dozen
/// sites for each activity, take 13 MB.
pub const WORKFLOW_MESSAGE_MAX_BYTES: usize = 16 << 20;
/// Largest answer that a client accepts, in bytes. Listings of bookings come in pages smaller than this.
pub const ANSWER_MAX_BYTES: usize = 16 << 20;
/// Bytes after which a page ends before all its entries are in it: well below what a client accepts.
pub const PAGE_BYTES: usize = 4 << 20;
/// Most entries of one page of a listing.
pub const PAGE_MAX: u32 = 10_000;
/// Entries of one page when the caller does not state a number.
pub const PAGE_DEFAULT: u32 = 1_000;
/// Reservations that a listing looks at before the thread that owns the ledger does other work again.
pub const LIST_SLICE_LOOKS: usize = 512;
/// Reservations that a listing copies before that thread does other work again: some tenths of a millisecond, a small
/// part of a sync.
pub const LIST_SLICE_COPIES: usize = 64;
/// Commands that may wait for the owner of a core; one more is answered "busy, try again".
pub const INBOX_MAX: usize = 4_096;
/// Inputs whose records share one fsync. Larger batches bring no measurable gain and cost latency.
pub const GROUP_COMMIT_MAX: usize = 256;
/// Causers whose numbers a ledger keeps in memory, about 200 bytes each. One that is not among them is looked up in the
/// file, which costs microseconds.
pub const CAUSERS_REMEMBERED: usize = 4_096;
/// Parts that change at least before a snapshot of them is written, however slow the disk is.
pub const SNAPSHOT_PARTS: usize = 256;
/// Parts that change at most before a snapshot of them is written, however fast the disk is: more save little.
pub const SNAPSHOT_PARTS_MAX: usize = 4_096;
/// Time that a snapshot is to take, because no Hold is answered meanwhile. What it takes at the 99th percentile is some two
/// times as long: it is to stay below 20 ms.
pub const SNAPSHOT_TIME: Span = Span::from_millis(8);
/// Records after which a snapshot is written in any case. A start replays so many records at most.
pub const SNAPSHOT_RECORDS: u64 = 4_096;
/// Records that stay in the ledger's file although a snapshot contains them: about 10 MB. A watcher that was away for
/// no longer than they reach back goes on where it was.
pub const LEDGER_RECORDS_KEPT: u64 = 50_000;
/// Records after which a member of a shared log says that they are durable in its copy. It waits for its disk then.
pub const SHARED_LOG_SEEN_RECORDS: u64 = 4_096;
/// Records that a shared log keeps at most for members that do not have them: about 300 MB. A member that was away for longer
/// begins with a copy of another one's ledger.
pub const SHARED_LOG_RECORDS_MAX: u64 = 1_000_000;
/// Bytes of etcd in use above which a shared log keeps no records for members that do not have them: half of the 2 GiB that etcd
/// takes by default.
pub const SHARED_STORE_BYTES_MAX: u64 = 1 << 30;
/// Time after which the lease of the process that leads a shared log ends, if the process does not renew it.
pub const LEASE: Span = Span::from_secs(5);
/// Pause between two renewals of a lease: three are lost before it ends.
pub const LEASE_RENEWAL: Span = Span::from_millis(1_200);
/// Time before the end of its lease at which a leader answers no more: clocks do not run equally fast.
pub const LEASE_MARGIN: Span = Span::from_secs(1);
/// Time without any work after which the owner of a shared ledger counts as stuck. It works at least once a second.
pub const STUCK_LEADER: Span = Span::from_secs(30);
/// Pause between two looks of a standby at the shared log.
pub const STANDBY_PAUSE: Span = Span::from_millis(100);
/// Patience for one call to etcd. Another member is asked after that.
pub const ETCD_PATIENCE: Span = Span::from_millis(1_500);
/// Time for which a leader asks etcd what became of an append. Somebody else leads by then.
pub const APPEND_PATIENCE: Span = Span::from_secs(15);
/// Records in one archive, about 10 MB.
pub const ARCHIVE_RECORDS: u64 = 50_000;
/// Pause after which a task that must not give up tries a full inbox again.
pub const BUSY_PAUSE: Span = Span::from_millis(20);
/// Pause before an RM that has not described itself is asked again.
pub const DESCRIBE_RETRY: Span = Span::from_millis(500);
/// How long after its start a coordinator lets requests wait for RMs that have not described themselves yet: time for
/// a connection and a few more questions. After that, an RM without a description counts as absent.
pub const DESCRIBE_PATIENCE: Span = Span::from_secs(3);
/// Pause before an RM that has described itself is asked whether its description has changed. A resource that is
/// added to an inventory is used within three seconds of the RM's restart: this pause, and the time of an answer.
pub const DESCRIBE_REFRESH: Span = Span::from_secs(2);
/// Bookings that end in the same span of this length are compared together, so that past bookings drop out of every
/// comparison by themselves: if a restored ledger lacks last year's bookings, next year's comparisons cost no more.
pub const RECONCILE_ERA: Span = Span::from_secs(7 * 86_400);
/// Parts into which the bookings of one such span are divided. Of 100,000 bookings that end within a week, one
/// difference lists about 3,000.
pub const RECONCILE_SHARDS: u8 = 32;
/// Parts that one comparison may name: somewhat more than [`HORIZON_MAX`] has.
pub const RECONCILE_PARTS_MAX: usize = 20_000;
/// Pages that one comparison may take: some millions of bookings, more than an RM has.
pub const RECONCILE_PAGES_MAX: usize = 64;
/// How often a coordinator compares its bookings with those of an RM when there is no other reason to.
pub const RECONCILE_EVERY: Span = Span::from_secs(3_600);
/// Pause before a difference is looked at a second time. Messages are usually under way for less time than this, so a
/// booking that is merely late is not reported as a difference.
pub const RECONCILE_AGAIN: Span = Span::from_secs(3);
/// Differences that one comparison records, which lets watchers hear of them. If an RM came back empty and there are
/// more differences than this, later comparisons record the rest.
pub const DIFFERENCES_RECORDED_MAX: usize = 4_096;
/// Pause after a failed comparison with an RM before the next one.
pub const RECONCILE_RETRY: Span = Span::from_secs(10);
/// Differences with one RM that a coordinator keeps and reports; further ones are only counted. The differences with
/// a hundred RMs fit one answer.
pub const DIFFERENCES_KEPT: usize = 1_000;
/// Reservations for which one call gives up on an RM; further ones are left to the next call.
pub const GIVE_UP_MAX: usize = 1_000;
/// Most characters of an operator's reason.
pub const WHY_MAX: usize = 200;
/// HTTP/2 streams (calls in flight) of one connection.
pub const STREAMS_MAX: u32 = 1_024;
/// Calls in flight of one connection; more are refused at once.
pub const CALLS_MAX: usize = 1_024;
/// Connections of one server that have spoken HTTP/2. For one more, the connection that has been idle longest is
/// closed.
pub const CONNECTIONS_MAX: usize = 768;
/// The same on a system that does not allow enough open files for all of them.
pub const CONNECTIONS_MIN: usize = 32;
/// One in this many connections is kept for other addresses: no single address may have all connections.
pub const CONNECTIONS_OTHERS_PART: usize = 8;
/// How long a connection may take to speak HTTP/2: its first 33 bytes travel with its first packet.
pub const SILENT_PATIENCE: Span = Span::from_secs(5);
/// Connections that have not spoken HTTP/2 yet. For one more, the oldest is closed.
pub const SILENT_MAX: usize = 128;
/// The same for the connections of one address.
pub const SILENT_PER_PEER_MAX: usize = 96;
/// No such connection is closed to admit another before it has had this much time. A client sends its first bytes as
/// soon as it is connected, unless its machine is busy. 96 in 20 ms are 4,800 connections a second.
pub const SILENT_MIN: Span = Span::from_millis(20);
/// Connections that were asked to close, to admit others, and are still open.
pub const LEAVING_MAX: usize = 64;
/// A connection that was asked to close is cut after this long, unless it has calls in progress.
pub const LEAVING_PATIENCE: Span = Span::from_secs(1);
/// Connections that are being closed; while there are more, no connection is accepted.
pub const CUT_MAX: usize = 32;
/// An answer of which the client takes nothing for so long does not keep its connection open. A stream has something
/// to send at least every [`WATCH_PROGRESS`].
pub const ANSWER_PATIENCE: Span = Span::from_secs(30);
/// Connections that the system may queue for a server until it accepts them; the system may allow fewer.
pub const LISTEN_BACKLOG: u32 = 4_096;
/// Open files of a daemon apart from its live connections: other connections, the watchers' files, the ledger, and
/// the calls to other daemons.
pub const FILES_BESIDE_CONNECTIONS: usize =
    SILENT_MAX + LEAVING_MAX + CUT_MAX + 2 * (WATCHERS_MAX + OWN_WATCHES_MAX) + 96;
/// Open files that a daemon sets as its limit at its start, as far as the system lets it: enough for all of the
/// above, and for a coordinator's connections to thousands of resource managers.
pub const FILES_WANTED: u64 = 4_096;
/// Pause after the system gave no connection (because no files are left, for example), so that the server does not
/// spin.
pub const ACCEPT_PAUSE: Span = Span::from_millis(100);
/// How often a silent client is asked for a sign of life.
pub const SERVER_KEEPALIVE: Span = Span::from_secs(10);
/// How long the server waits for that sign of life before it drops the client.
pub const SERVER_KEEPALIVE_PATIENCE: Span = Span::from_secs(5);
/// How often a server that does not answer a call is asked for a sign of life.
pub const CLIENT_KEEPALIVE: Span = Span::from_millis(500);
/// How long the client waits for that sign of life before it gives the server up.
pub const CLIENT_KEEPALIVE_PATIENCE: Span = Span::from_millis(500);
/// Longest time to make a connection.
pub const CONNECT_PATIENCE: Span = Span::from_secs(2);
/// Longest time for one of several addresses to say whether it leads: within [`CONNECT_PATIENCE`], and then the connection is made.
pub const LEADER_PATIENCE: Span = Span::from_millis(1_000);
/// Longest host name in a certificate, in characters: what DNS allows.
pub const HOST_NAME_LEN_MAX: usize = 253;
/// Most host names in one certificate.
pub const HOSTS_MAX: usize = 16;
/// Most bytes of one file of an identity: a certificate takes 1 kB, and a list of 20,000 revoked ones 1 MB.
pub const IDENTITY_FILE_BYTES_MAX: u64 = 4 << 20;
/// Most bytes of a request for a signed tip: its challenge has at most [`TIP_CHALLENGE_BYTES_MAX`].
pub const TIP_MESSAGE_MAX_BYTES: usize = 1_024;
/// Most bytes of the challenge in a signed tip: 16 random ones are never chosen twice.
pub const TIP_CHALLENGE_BYTES_MAX: usize = 32;
/// Most bytes of the statement in a signed tip: its longest texts, an identity and a name, take 1 kB together.
pub const TIP_STATEMENT_BYTES_MAX: usize = 4_096;
/// Most certificates of a signed tip: deeper than any chain of authorities that is in use.
pub const TIP_CERTIFICATES_MAX: usize = 8;
/// Most bytes of one certificate of a signed tip: one with 16 long host names takes 6 kB.
pub const TIP_CERTIFICATE_BYTES_MAX: usize = 16 << 10;
/// Most bytes of the signature of a tip: one by an RSA key of 8,192 bits.
pub const TIP_SIGNATURE_BYTES_MAX: usize = 1_024;
/// Most bytes of a line in a file of signed tips: the largest tip in base64, and what is around it. Longer lines are
/// not read into memory.
pub const EVIDENCE_LINE_BYTES_MAX: usize = 256 << 10;
/// Most domains that a daemon believes. Every certificate is checked against one of them only.
pub const TRUST_DOMAINS_MAX: usize = 1_024;
/// How often a daemon looks whether the files of its identity have changed. With [`IDENTITY_LOOK`] a peer that was
/// revoked is out within ten seconds.
pub const IDENTITY_POLL: Span = Span::from_secs(5);
/// How often it is checked whether the peer of a connection is still believed, besides at every change of the files:
/// the machine's clock may be set.
pub const IDENTITY_LOOK: Span = Span::from_secs(60);
/// Shortest time between two warnings that a certificate ends soon.
pub const IDENTITY_WARNING_PAUSE: Span = Span::from_secs(3_600);
/// How long a client waits for a TLS handshake, which takes a millisecond of work and two round trips. A server gives
/// it [`SILENT_PATIENCE`], as it gives every connection that has not spoken.
pub const HANDSHAKE_PATIENCE: Span = Span::from_secs(2);
/// Age at which a server closes a connection that is proven by a certificate, once its calls are done: with a new
/// connection both ends judge each other anew.
pub const CONNECTION_AGE_MAX: Span = Span::from_secs(3_600);
/// Shortest time between two denials in the log. All of them are counted in the metrics.
pub const DENIAL_LOG_PAUSE: Span = Span::from_secs(1);
/// How long a stopping daemon waits for calls in flight; streams never end by themselves.
pub const STOP_PATIENCE: Span = Span::from_secs(5);
/// Longest time that a call may take at a server, whatever its client says.
pub const CALL_TIME_MAX: Span = Span::from_secs(120);
/// How long a coordinator waits for the availability of one RM before it plans without that RM.
pub const QUERY_PATIENCE: Span = Span::from_secs(3);
/// Availability queries of one user to one RM in flight at a time. While they are in flight, the frames of the user's
/// further requests gather and travel as one batch. Because there are two, one slow answer does not hold up all of them.
pub const QUERIES_PER_USER_MAX: usize = 2;
/// Availability queries of one coordinator to one RM in flight at a time, whoever's they are: room for users who ask now
/// and then beside one who always does. An RM reads for them for [`READS_TIME`] at a time, so its protocol goes on.
pub const QUERIES_IN_FLIGHT_MAX: usize = 8;
/// How long a request waits for its availability query: for one query that is in flight before it, and for its own.
pub const QUERY_QUEUE_PATIENCE: Span = Span::from_secs(7);
/// Timeout of one Hold, Commit, Abort or Release call, after which the coordinator sends it again.
pub const MESSAGE_PATIENCE: Span = Span::from_secs(5);
/// How long one call of a driver to its equipment may take. Shorter than [`CLAIM_PATIENCE`], so that a claim can be
/// tried again.
pub const EQUIPMENT_PATIENCE: Span = Span::from_secs(3);
/// How long after its Hold a claim may still be made at the equipment; then the Hold is refused. Shorter than
/// [`HOLD_PATIENCE`], so that the coordinator hears of it and looks elsewhere.
pub const CLAIM_PATIENCE: Span = Span::from_secs(6);
/// How often an RM looks at its equipment, to mend what somebody has changed there.
pub const EQUIPMENT_LOOK_EVERY: Span = Span::from_secs(30);
/// How often it looks shortly after a change, for [`EQUIPMENT_LOOK_CLOSELY`]: equipment may acknowledge what it then
/// loses in a restart of its own.
pub const EQUIPMENT_LOOK_SOON: Span = Span::from_secs(5);
/// How long after a change it looks so often.
pub const EQUIPMENT_LOOK_CLOSELY: Span = Span::from_secs(10);
/// How long something of this RM that nobody wants must have been at the equipment before it is removed.
pub const EQUIPMENT_ORPHAN_GRACE: Span = Span::from_secs(20);
/// First and longest pause before equipment that made trouble is tried again; the pause doubles.
pub const EQUIPMENT_RETRY_MIN: Span = Span::from_millis(200);
/// See [`EQUIPMENT_RETRY_MIN`].
pub const EQUIPMENT_RETRY_MAX: Span = Span::from_secs(5);
/// How late the start or the end of a window may be noticed when the wall clock jumps.
pub const EQUIPMENT_CLOCK_CHECK: Span = Span::from_secs(10);
/// How late a coordinator may notice the start or the end of a window when the wall clock jumps.
pub const USAGE_CLOCK_CHECK: Span = Span::from_secs(60);
/// How many reservations a coordinator looks at in one step for what their users can do with them. Others wait no longer for
/// the coordinator than for a listing.
pub const USAGE_SLICE: usize = 200;
/// The most characters of what is wrong at one resource manager's equipment that a coordinator keeps of a reservation.
pub const EQUIPMENT_TROUBLE_CHARS_MAX: usize = 400;
/// The most resources of one reservation at one resource manager of whose equipment a coordinator keeps what it is told: both
/// versions while it is changed. An honest resource manager tells of no others.
pub const EQUIPMENT_RESOURCES_MAX: usize = 2 * HOLD_SEGMENTS_MAX;
/// The most servers of one reservation at one resource manager of which a coordinator keeps that they cannot be used: as many
/// as a hold may avoid. If there are more, the reservation is moved off these first.
pub const EQUIPMENT_UNUSABLE_MAX: usize = SERVERS_MAX as usize;
/// How long equipment must have been unusable before a reservation is moved off it: what restarts is back by then.
pub const RELOCATION_PATIENCE: Span = Span::from_secs(10);
/// How long before now the new version of a reservation that has begun begins where it is moved: a resource manager whose clock is
/// behind by less takes it for begun, and does not end what runs.
pub const RELOCATION_BACKDATE: Span = Span::from_secs(10);
/// How long before its window a reservation is moved off equipment that cannot be used. Until then, somebody may mend it.
pub const RELOCATION_AHEAD: Span = Span::from_secs(3_600);
/// How often a coordinator looks for reservations to move.
pub const RELOCATION_LOOK: Span = Span::from_secs(1);
/// The pause after a reservation could not be moved. It doubles up to [`RELOCATION_RETRY_MAX`].
pub const RELOCATION_RETRY: Span = Span::from_secs(30);
/// The longest such pause. Each try counts against [`CHANGES_MAX`], which lasts for weeks of these, and for
/// more than a day of equipment that fails after each move.
pub const RELOCATION_RETRY_MAX: Span = Span::from_secs(600);
/// How many reservations are moved at once, so that a site that fails as a whole leaves planners for others.
pub const RELOCATIONS_AT_ONCE: usize = 4;
/// The most that a coordinator takes of one resource manager's equipment at the beginning of a stream: resources of bookings, and
/// names of what of them cannot be used. With the texts it is
/// some 100 MB, and more than a cluster or a shaped link has of reservations.
pub const EQUIPMENT_FOUND_MAX: usize = 200_000;
/// How long a Reserve call waits for the outcome before it answers "not finished, look here".
pub const RESERVE_PATIENCE: Span = Span::from_secs(60);

/// Watchers of one daemon; one more is answered "busy, try again". Each has its own connection to the ledger (two
/// open files): see [`FILES_BESIDE_CONNECTIONS`].
pub const WATCHERS_MAX: usize = 64;
/// Watches by which a daemon follows its own ledger: one for all pages, and those before it that are about to end.
pub const OWN_WATCHES_MAX: usize = 4;
/// Most records that a watcher reads at once.
pub const WATCH_CHUNK: usize = 128;
/// Bytes of records after which a watcher stops reading; together with [`WATCH_BUFFER`] this bounds its memory.
pub const WATCH_CHUNK_BYTES: usize = 256 << 10;
/// Events of a watcher that wait for its client to take them; later ones stay in the ledger.
pub const WATCH_BUFFER: usize = 16;
/// Shortest time between two reads of the ledger by all watchers of one caller together, so that their cost grows neither
/// with the rate of commits nor with their number. For a single one it is too short for a person to notice.
pub const WATCH_PAUSE: Span = Span::from_millis(10);
/// A watcher without new events reports its position this often.
pub const WATCH_PROGRESS: Span = Span::from_secs(10);
/// How long a reader waits for SQLite while the writer truncates its log.
pub const WATCH_READ_PATIENCE: Span = Span::from_secs(5);
/// A watcher whose client takes nothing for so long loses its place to others; the client resumes with its token.
pub const WATCH_STALL_MAX: Span = Span::from_secs(120);
/// Connections of the web listener; one more waits. Two hundred viewers, each with a stream, and what they click.
pub const WEB_CONNECTIONS_MAX: usize = 512;
/// Longest time of a connection of the web listener for a TLS handshake, and for the head of its next request.
pub const WEB_HEAD_PATIENCE: Span = Span::from_secs(15);
/// Longest time in which the body of a request to the web listener arrives.
pub const WEB_BODY_PATIENCE: Span = Span::from_secs(30);
/// How many times as long as a message its JSON may be: a number of one byte with its name in quotes.
pub const WEB_JSON_FACTOR: usize = 4;
/// Most bytes of a form of a page. The largest thing in one is a request: 32 sites and 128 links with names of 128 characters
/// are 45 KB.
pub const WEB_FORM_MAX_BYTES: usize = 64 << 10;
/// Most bytes of a token in a cookie: browsers keep 4,096 bytes of a cookie with its name.
pub const WEB_TOKEN_MAX_BYTES: usize = 4_000;
/// How often a second all open pages together read themselves again: each reading is some milliseconds of the coordinator's time,
/// which Hold and Commit of others want, too. With more viewers each of them waits longer.
pub const WEB_READS_PER_S: usize = 40;
/// Shortest time between two readings of one open page.
pub const WEB_READ_PAUSE: Span = Span::from_secs(1);
/// How long a secret address of a calendar is valid unless its user says otherwise: a term. Whoever does not use it any more
/// need not think of it.
pub const CALENDAR_VALID_DEFAULT: Span = Span::from_secs(90 * 86_400);
/// The shortest time for which one is valid: calendar programs read once in some minutes.
pub const CALENDAR_VALID_MIN: Span = Span::from_secs(60);
/// The longest time for which one is valid. A secret that stands in programs and their backups should not be good for ever.
pub const CALENDAR_VALID_MAX: Span = Span::from_secs(366 * 86_400);
/// Secret addresses of calendars at one coordinator: one for each of its users. With a certificate each takes about 2 kB of
/// memory and of the ledger, and 9 kB at most.
pub const CALENDARS_MAX: usize = 10_000;
/// How often a second the calendar of a user is read by its secret address. Readings have a share of their own: whoever has got
/// hold of an address must not use up the calls of its owner, who has to be able to revoke it.
pub const CALENDAR_READS_PER_S: u32 = 20;
/// Secrets of such addresses that are looked up at a time. Anybody may show one, and each takes a turn of the coordinator's thread.
pub const CALENDAR_LOOKUPS_MAX: usize = 8;
/// Most characters of the certificates that are kept with a secret address, as base64: a certificate and two of its issuers.
pub const CALENDAR_PROOF_MAX: usize = 8 << 10;
/// Reservations on one page of a list; the page links the next ones.
pub const WEB_LIST_ROWS: u32 = 200;
/// Most reservations that a drawing is made of. They are read in one answer after the other, and the page says when there are
/// more.
pub const WEB_DRAWN_MAX: usize = 10_000;
/// Most bars of one timeline. Of more, each row shows how much of it is taken, as steps.
pub const WEB_BARS_MAX: usize = 2_000;
/// Most steps of one row of a timeline: one for two pixels of the widest page.
pub const WEB_STEP_COLUMNS_MAX: usize = 640;
/// Most steps of all rows of a timeline together; rows of a large federation have fewer. At most 20 bytes each.
pub const WEB_STEPS_MAX: usize = 20_000;
/// Rows of single servers below one timeline; the page says how many are left out.
pub const WEB_SERVER_ROWS_MAX: usize = 100;
/// Sites about which one timeline asks what is otherwise taken, each with a call of its own.
pub const WEB_ASKED_SITES_MAX: usize = 32;
/// Most workflows whose plans are read for one drawing, each with a call of its own.
pub const WEB_WORKFLOWS_MAX: usize = 20;
/// Most experiments that the page lists; it says when there are more.
pub const WEB_EXPERIMENTS_MAX: usize = 200;
/// Most entries of the folder of experiments that are looked at for a list: some milliseconds on a local disk.
pub const WEB_FOLDER_ENTRIES_MAX: usize = 10_000;
/// Most bytes of a report that is shown. The longest of the shipped experiments has 29 kB: tables of means end after 60 rows.
pub const WEB_REPORT_MAX_BYTES: usize = 256 << 10;
/// Bytes of a report in which its title is looked for, when reports are listed.
pub const WEB_TITLE_BYTES: usize = 4 << 10;
/// Most bytes of a plot that is shown. The largest of the shipped experiments has 50 kB.
pub const WEB_PLOT_MAX_BYTES: usize = 2 << 20;
/// Reports and plots that are read at a time; one more waits. A slow disk then holds up few threads, and the memory for what is
/// read has a bound.
pub const WEB_FILE_READS_MAX: usize = 8;
/// Scrapes of metrics answered at a time; one more waits. A Prometheus and its replica need two.
pub const SCRAPES_MAX: usize = 8;
/// Longest time of one scrape, including its reading and writing: Prometheus gives up after 10 s.
pub const SCRAPE_PATIENCE: Span = Span::from_secs(10);
/// How long a scrape waits for the figures of a core before it repeats those of the previous scrape.
pub const SCRAPE_READ_PATIENCE: Span = Span::from_secs(1);
/// Methods for which calls are counted separately: all of the schema, health and reflection, with some to spare.
pub const METHODS_COUNTED_MAX: usize = 64;
/// Spans that may wait for the collector; one more is dropped. A request to 13 RMs has about 150 spans, so this is
/// some 100 requests, or 8 MB.
pub const SPANS_MAX: usize = 16_384;
/// Spans in one message to the collector.
pub const SPANS_BATCH_MAX: usize = 512;
/// Longest time that a span waits for others that are sent in the same message.
pub const SPANS_PAUSE: Span = Span::from_secs(1);
/// How long the collector may take for one message, and a stopping daemon for its last messages.
pub const COLLECTOR_PATIENCE: Span = Span::from_secs(2);
/// Lost messages that are remembered, so that a message that is sent again can be counted; beyond this number, it is
/// not counted.
pub const LOST_COUNTED_MAX: usize = 65_536;
/// Requests that are traced at a time: far more than can be planned at once, so that every request that was planned
/// is followed through its two phases.
pub const TRACED_MAX: usize = 4_096;
/// Longest delay that `coalloc relay` adds: longer than any keepalive, so that its users can try what a delay breaks.
/// A satellite link takes 0.3 s.
pub const RELAY_DELAY_MAX: Span = Span::from_secs(10);
/// Added delay of a piece that a relay treats as lost: the least time after which Linux sends again.
pub const RELAY_RESEND: Span = Span::from_millis(200);
/// Bytes in flight in one direction of a relayed connection: 100 Mbit/s over 20 ms, and, for all connections
/// together, small compared with the memory of a container.
pub const RELAY_WINDOW_BYTES: usize = 256 << 10;
/// How long one direction of a relayed connection may go on after the other has ended. An answer to a request that
/// has been sent completely takes less, whatever the delay.
pub const RELAY_LAST_WORDS: Span = Span::from_secs(30);
/// Connections that one relay passes on at a time; one more waits. A coordinator has a handful to each RM.
pub const RELAY_CONNECTIONS_MAX: usize = 256;
/// Runs of one experiment: points of its sweep, times seeds. Each is a line of some hundred bytes in a file of
/// results that is kept in memory. This many take a few hundred megabytes at most, and days of work.
pub const EXPERIMENT_RUNS_MAX: u64 = 1_000_000;
/// Highest first seed of an experiment: small enough that the seeds after it fit their type, and exact in JSON.
pub const EXPERIMENT_SEED_MAX: u64 = 1_000_000_000_000;
/// Longest token of a user, in bytes. Tokens of login services that list a user's groups have a few thousand, and
/// all headers of a call together may have 16 KiB.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// Issuers of tokens that one coordinator believes: a login service for each of its domains.
pub const TOKEN_ISSUERS_MAX: usize = 16;
/// Longest name of an issuer and longest audience, in characters: they are URLs, and ten times as long as most.
pub const TOKEN_TEXT_LEN_MAX: usize = 512;
/// Longest file with the keys of an issuer, in bytes: [`TOKEN_KEYS_MAX`] of the largest keys, each with a chain of
/// certificates.
pub const TOKEN_KEYS_BYTES_MAX: usize = 256 << 10;
/// Keys of one issuer. A login service that changes its key every day and lists the old ones for a month has half as
/// many.
pub const TOKEN_KEYS_MAX: usize = 64;
/// Shortest RSA key, in bits: what NIST SP 800-131A and RFC 7518 ask for.
pub const TOKEN_RSA_BITS_MIN: usize = 2_048;
/// Longest RSA key, in bits: the `rsa` crate verifies nothing by a longer one. The bound also limits what a stranger's
/// token can cost.
pub const TOKEN_RSA_BITS_MAX: usize = 4_096;
/// Smallest public exponent of an RSA key: what FIPS 186-5 asks for, and what almost all keys have.
pub const TOKEN_RSA_EXPONENT_MIN: u64 = 65_537;
/// Largest public exponent of an RSA key: the `rsa` crate verifies nothing by a larger one.
pub const TOKEN_RSA_EXPONENT_MAX: u64 = (1 << 33) - 1;
/// How far the clocks of an issuer and of a coordinator may differ. Synchronized clocks differ by less than a second.
pub const TOKEN_LEEWAY: Span = Span::from_secs(60);
/// Longest life of a token. A token that somebody has stolen cannot be revoked, so it has to end by itself. Who
/// logs in twice a day always has one.
pub const TOKEN_LIFETIME_MAX: Span = Span::from_secs(6 * 3_600);
/// Verified tokens that are remembered: one for each user of a large federation. They take less than 5 MB.
pub const TOKEN_CACHE_MAX: usize = 10_000;
/// Pixels of one image that is drawn as PNG. At four bytes each, it takes a quarter of a gigabyte of memory while it
/// is drawn.
pub const PICTURE_PIXELS_MAX: u64 = 1 << 26;
/// Bytes that an external solver program may write to one stream or file for one frame: what MiniSat+ and clasp print
/// for the largest models is below a megabyte.
pub const OUTSIDE_OUTPUT_MAX: u64 = 16 << 20;
/// Time that such a program has to end when its solver time is over: to write what it has found.
pub const OUTSIDE_GRACE: Span = Span::from_secs(1);

// A hold must outlive the coordinator's wait for all holds plus the margin that it wants at the decision.
const _: () = assert!(HOLD_HARD_MIN.as_us() > HOLD_PATIENCE.as_us() + COMMIT_MARGIN.as_us());
const _: () = assert!(HOLD_SOFT_MAX.as_us() <= HOLD_HARD_DEFAULT.as_us());
// The names of all activities, twice in sets, and of all dependencies: item, producer and consumer.
const _: () = assert!(
    (WORKFLOW_ACTIVITIES_MAX * 14 + WORKFLOW_DEPENDENCIES_MAX * 3) * (NAME_LEN_MAX + 8)
        < WORKFLOW_MESSAGE_MAX_BYTES
);
const _: () = assert!(WORKFLOW_ACTIVITIES_MAX <= HOLD_SEGMENTS_MAX);
const _: () = assert!(HOLD_SOFT_MIN.as_us() < HOLD_HARD_MIN.as_us());
const _: () = assert!(UPWARD_PATIENCE.as_us() < MESSAGE_PATIENCE.as_us());
const _: () = assert!(UPWARD_REPLANS_MAX <= REPLANS_MAX);
// A change is cut where the parts of both versions begin and end, and at the instant from which it is made.
const _: () = assert!(2 * REQUEST_PERIODS_MAX < UPWARD_PERIODS_MAX);
const _: () = assert!(EQUIPMENT_PATIENCE.as_us() * 2 <= CLAIM_PATIENCE.as_us());
const _: () = assert!(CLAIM_PATIENCE.as_us() < HOLD_PATIENCE.as_us());
// One call is shorter than the wait for all of them, so that a lost Hold is sent twice.
const _: () = assert!(MESSAGE_PATIENCE.as_us() < HOLD_PATIENCE.as_us());
const _: () = assert!(RESERVE_PATIENCE.as_us() < CALL_TIME_MAX.as_us());
const _: () = assert!(QUERY_QUEUE_PATIENCE.as_us() > 2 * QUERY_PATIENCE.as_us());
// No single user may have all queries in flight.
const _: () = assert!(QUERIES_PER_USER_MAX < QUERIES_IN_FLIGHT_MAX);
const _: () = assert!(WHAT_IF_TURNS_PER_USER < PLANNING_TURNS);
// The default horizon fits one vector in slots of a minute; the largest slot number fits 64 bits for any slot length.
const _: () = assert!(HORIZON_DEFAULT.as_us() / 60_000_000 <= VECTOR_SLOTS_MAX as i64);
const _: () = assert!(SLOT_MIN.as_us() > 0 && TIME_MAX_US < i64::MAX / 4);
const _: () = assert!((EDGES_MAX as u64) * 2 * 10_000 <= PICTURE_SLOTS_MAX);
// The usual bound of 1,024 files still leaves a server most of its connections.
const _: () = assert!(2 * (1_024 - FILES_BESIDE_CONNECTIONS) > CONNECTIONS_MAX);
const _: () = assert!((CONNECTIONS_MAX + FILES_BESIDE_CONNECTIONS) as u64 <= FILES_WANTED);
// Silent connections of one address leave some places to others, and a stream is never taken for a stalled answer.
const _: () = assert!(SILENT_PER_PEER_MAX < SILENT_MAX);
const _: () = assert!(ANSWER_PATIENCE.as_us() > 2 * WATCH_PROGRESS.as_us());
const _: () = assert!(LEDGER_ROOM_MIN <= LEDGER_ROOM_MAX && LEDGER_FREE_MIN < LEDGER_ROOM_MARGIN);
// A slow sync is reported before the caller that waits for it gives up.
const _: () = assert!(SLOW_SYNC.as_us() < MESSAGE_PATIENCE.as_us());
// A daemon that stops has sent its last spans before it is killed because it takes too long.
const _: () = assert!(COLLECTOR_PATIENCE.as_us() < STOP_PATIENCE.as_us());
const _: () = assert!(TRACED_MAX > PLANNINGS_MAX);
const _: () = assert!(
    (HORIZON_MAX.as_us() / RECONCILE_ERA.as_us() + 2) * RECONCILE_SHARDS as i64
        <= RECONCILE_PARTS_MAX as i64
);
// A page may exceed its bytes by one entry, which is at most an admitted message with its plan.
const _: () = assert!(PAGE_BYTES + 4 * MESSAGE_MAX_BYTES <= ANSWER_MAX_BYTES);
const _: () = assert!(TOKEN_LEEWAY.as_us() < TOKEN_LIFETIME_MAX.as_us());
// Starts of jobs are counted in microseconds.
const _: () = assert!(TRACE_SECONDS_MAX < i64::MAX / TRACE_JOBS_MAX as i64 / 4);
const _: () =
    assert!(TRACE_SECONDS_MAX + TRACE_HORIZON_DAYS_MAX * 86_400 < i64::MAX / 1_000_000 / 4);
