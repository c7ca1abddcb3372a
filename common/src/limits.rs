//! Every bound of Coalloc, each with its reason. A bound that stands elsewhere is a mistake.
//!
//! The bounds are chosen so that no product of accepted values overflows 64 bits; the assertions at
//! the end tie those that depend on one another.

use crate::time::Span;

/// Longest name: a transaction id (`coordinator-tag-number/attempt`) of the longest coordinator's name.
pub const NAME_LEN_MAX: usize = 128;
/// Longest name of a coordinator: its ids add a tag of 8 digits, a number of up to 20, an attempt of up to 10
/// and three separators, and are names too.
pub const COORDINATOR_NAME_LEN_MAX: usize = 80;

/// Most sites in one request. The paper has 1 to 4, its CPUs of "1-8" sites; a planner searches
/// products of this, so admission is where it ends.
pub const REQUEST_SITES_MAX: usize = 32;
/// Most links in one request: a full mesh of 16, or a ring of 32 four times over.
pub const REQUEST_LINKS_MAX: usize = 128;
/// Most CPUs one requested site may ask for, and a site may have. Ten million is beyond any machine.
pub const CPUS_MAX: u64 = 10_000_000;
/// Highest rate of a path or a requested link, in bit/s: 1 Pbit/s.
pub const BANDWIDTH_MAX_BPS: u64 = 1_000_000_000_000_000;
/// Highest unit value (points per CPU, points per Gbit/s).
pub const UNIT_VALUE_MAX: u64 = 1_000_000;
/// Longest latency an edge may state or a link may allow: ten times the way around the world.
pub const LATENCY_MAX: Span = Span::from_secs(10);
/// Highest unit price, in thousandths of a point per CPU or Gbit/s and hour: as high as unit values.
pub const UNIT_PRICE_MAX: u64 = 1_000 * UNIT_VALUE_MAX;
/// Most bands of a price schedule: one for each quarter of an hour of a day.
pub const PRICE_BANDS_MAX: usize = 96;
/// Full quality of a resource, as good as any.
pub const QUALITY_FULL: u32 = 1_000;

/// Most frames one query or one request may name. The paper uses N = 10; beyond a few hundred the
/// ladder's steps are shorter than anyone's preference, and each frame is a plan to compute.
pub const FRAMES_MAX: u32 = 256;
/// Frames when the request does not say: the paper's N.
pub const FRAMES_DEFAULT: u32 = 10;
/// Edges a requested link may take (N_max of Takefusa 2010, Eq. 11) when nobody says otherwise: in
/// ELGL any two sites are joined within 4, a detour inside each of two domains included.
pub const ROUTE_EDGES_DEFAULT: u32 = 4;
/// Largest N_max that can be asked for.
pub const ROUTE_EDGES_MAX: u32 = 16;
/// Most plans tried in one reservation: one per frame.
pub const ATTEMPTS_MAX: usize = FRAMES_MAX as usize;
/// How often one reservation is planned again when others were faster at every plan. Each time the
/// picture is fresh, so the second is rarely needed.
pub const REPLANS_MAX: u32 = 3;
/// How often a reservation that is held one resource manager after the other is planned again, each time because
/// one of them refused the choice of it: a search of its own, in which a choice that was refused does not
/// come back. The paper's federation has 39 resources; [`RESERVE_PATIENCE`] ends a slow one before.
pub const BACKTRACKS_MAX: u32 = 40;
/// Longest pause before a reservation is planned again for the first time; twice as long each time
/// after. About what a Hold, a refusal and an Abort take, so that of two that met, one is through
/// before the other asks again.
pub const REPLAN_PAUSE: Span = Span::from_millis(20);
/// Longest pause before planning again, however often it was: nothing beside [`RESERVE_PATIENCE`].
pub const REPLAN_PAUSE_MAX: Span = Span::from_millis(500);
/// So many refusals of one resource are believed rather than what its RM answers when it is asked. One
/// may come from a rival's hold that is gone by now; a second, after the picture had promised enough
/// again, says that the picture promises too much.
pub const REFUSALS_BELIEVED: usize = 2;
/// Changes that one reservation may have, refused ones too: one each ten minutes for a month. What
/// became of each is kept for as long as the reservation is known, in some hundred bytes, because a
/// change that is sent again must not be made again; the next one is refused.
pub const CHANGES_MAX: usize = 4_096;
/// Longest time all the planning of one request may take.
pub const PLANNING_TIME_MAX: Span = Span::from_secs(5);

/// Search nodes of one frame: far beyond what the paper's sizes need, and a bound all the same. The
/// time above ends a search long before.
pub const PLANNING_NODES_MAX: u64 = 1 << 40;
/// Search nodes of one frame that a planner takes with the priority of everybody else: some
/// milliseconds. More than that gives way to the protocol.
pub const QUICK_NODES: u64 = 2_000;
/// And of all frames of a request together, so that one with 256 frames takes no more of it than ten.
pub const QUICK_NODES_ALL: u64 = 20_000;
/// Search nodes of one frame before what is open is handed to an outside solver, when there is time for
/// one: 95 % of frames of 120 sites are decided within a tenth of them.
pub const EXACT_NODES_MAX: u64 = 1 << 19;
/// What those nodes take, about; the outside solver gets what is left of the frame's share.
pub const EXACT_TIME: Span = Span::from_millis(600);
/// Least time an outside solver gets for one frame, so that small models are not cut off by rounding.
pub const SOLVER_TIME_MIN: Span = Span::from_millis(100);
/// Calls of outside solvers that did not keep their time and still go on, nobody waiting for them; with as many
/// of them no solver is called. Each has a thread of the lowest priority, and some 10 MB for its model.
pub const LIBRARIES_LEFT_MAX: usize = 4;
/// Requests that may be planned at once, or wait for it; one more is answered "busy, try again".
/// Each takes at most [`PLANNING_TIME_MAX`] of the planners' threads.
/// They are shared fairly by user.
pub const PLANNINGS_MAX: usize = 64;
/// Long searches at a time, and as many outside solvers; the others wait for their turn, round robin by user. With
/// two, the threads that the last frames of one leave idle have work.
pub const PLANNING_TURNS: usize = 2;
/// Plans that a coordinator remembers having shown, so that they can be reserved by their digests; the
/// oldest are forgotten first. Sixteen requests with a plan for each of 256 frames.
pub const SHOWN_PLANS_MAX: usize = 4_096;
/// Bytes that they may take: the largest plans are some 100 kB, those of the paper 1 kB.
pub const SHOWN_BYTES_MAX: usize = 16 << 20;
/// Digits by which a plan's digest may be told: with 48 bits two remembered plans are never alike.
pub const DIGEST_PREFIX_MIN: usize = 12;
/// Lead given to a request that wants to start as soon as possible: the time its own two phases may
/// take, so that its window does not begin before it is booked.
pub const SOONEST_LEAD: Span = Span::from_secs(30);
/// Longest time the search for what would do instead may take, after planning came to nothing: what a
/// person at a terminal waits for, and well within [`RESERVE_PATIENCE`] beside the planning.
pub const ALTERNATIVES_TIME_MAX: Span = Span::from_secs(5);
/// Time that an outside solver gets for each start or amount that is tried: one that takes longer does
/// not count as one that would do.
pub const ALTERNATIVES_SOLVER_TIME: Span = Span::from_millis(500);
/// Rounds of availability queries of that search, each for up to [`FRAMES_MAX`] starts at every RM.
pub const ALTERNATIVES_ROUNDS_MAX: u32 = 64;
/// Plans computed to find one smaller amount: a halving of 64 bits.
pub const SMALLER_STEPS_MAX: u32 = 64;
/// Paths that the closest plan of a frame is tried without, to find one that needs more on fewer.
pub const COMBINATION_STEPS_MAX: u32 = 16;
/// Requested sites up to which every grouping of them is tried for a cut between the groups.
pub const EXPLAIN_GROUPED_SITES_MAX: usize = 6;
/// Work on the explanation of one refused frame, in arcs of flow networks looked at: some tens of
/// milliseconds in a federation of 120 sites, never reached in one of 10. What has not been proven by
/// then stays unexplained.
pub const EXPLAIN_WORK_MAX: u64 = 500_000;

/// Search nodes for the question whether the empty federation has any plan at all, after a request was refused:
/// as many as a hard frame takes, well within a second.
pub const NEVER_NODES: u64 = 200_000;
/// And the longest time that is spent on it. What is open then counts as possible.
pub const NEVER_TIME: Span = Span::from_secs(1);

/// Shortest reservation. Below this the clocks of two domains disagree by more than the window.
pub const DURATION_MIN: Span = Span::from_secs(1);
/// Longest reservation.
pub const DURATION_MAX: Span = Span::from_secs(366 * 86_400);
/// How far ahead an RM lets anyone book unless its configuration says otherwise.
pub const HORIZON_DEFAULT: Span = Span::from_secs(90 * 86_400);
/// Furthest horizon an RM may configure.
pub const HORIZON_MAX: Span = Span::from_secs(10 * 366 * 86_400);
/// Times are accepted from 1970 to about the year 2255 (2^53 us, exact in JSON and in SQLite).
pub const TIME_MAX_US: i64 = 1 << 53;
/// How far in the past a window may begin at the RM: a request for "now" must survive its own way.
pub const START_GRACE: Span = Span::from_secs(60);

/// Hold kept before the RM asks the coordinator (as the NSI peers use).
pub const HOLD_SOFT_DEFAULT: Span = Span::from_secs(120);
/// Shortest hold: below it a slow fsync on the other side loses races for no reason.
pub const HOLD_SOFT_MIN: Span = Span::from_secs(1);
/// Longest hold before the RM asks.
pub const HOLD_SOFT_MAX: Span = Span::from_secs(900);
/// A hold whose coordinator stays out of reach ends here at the latest.
pub const HOLD_HARD_DEFAULT: Span = Span::from_secs(900);
/// Largest hard expiry an RM may configure.
pub const HOLD_HARD_MAX: Span = Span::from_secs(3_600);
/// A hold never reaches into the time it holds: hard expiry is at the latest this long before start.
pub const HOLD_LEAD: Span = Span::from_secs(1);
/// Shortest hard expiry given even if the window starts at once, so that a request for "now" works.
pub const HOLD_HARD_MIN: Span = Span::from_secs(10);
/// The coordinator decides commit only while every hold has this much left.
pub const COMMIT_MARGIN: Span = Span::from_secs(2);
/// How long the coordinator waits for all holds before it aborts.
pub const HOLD_PATIENCE: Span = Span::from_secs(7);
/// First pause before a message is sent again; it doubles up to [`RESEND_MAX`].
pub const RESEND_FIRST: Span = Span::from_millis(200);
/// How often the pause doubles after which a change that is booked in part is tried again, forwards or back:
/// from [`RESEND_FIRST`] to about a minute. What it waits for is capacity that others have.
pub const MEND_DOUBLINGS_MAX: u32 = 8;
/// Longest pause between two sendings of one message.
pub const RESEND_MAX: Span = Span::from_secs(10);
/// Pause before whoever decides about a hold is asked again for the first time; it doubles each time.
pub const ASK_FIRST: Span = Span::from_secs(1);
/// How often it doubles: up to 32 s, some thirty questions until the longest hard expiry.
pub const ASK_DOUBLINGS_MAX: u32 = 5;

/// Pause before whoever decides about a hold is asked again, after so many questions, when the hold has so much
/// left: never longer than half of that, so that the last questions come while an answer still counts, and
/// never shorter than the first pause.
#[must_use]
pub const fn ask_pause(asked: u32, left: Span) -> Span {
    let doubled = asked.saturating_sub(1);
    let doubled = if doubled < ASK_DOUBLINGS_MAX { doubled } else { ASK_DOUBLINGS_MAX };
    let (usual, half) = (ASK_FIRST.as_us() << doubled, left.as_us() / 2);
    let pause = if usual < half { usual } else { half };
    Span::from_us(if pause > ASK_FIRST.as_us() { pause } else { ASK_FIRST.as_us() })
}

/// Segments one hold may carry: every edge of the largest request once.
pub const HOLD_SEGMENTS_MAX: usize = 4_096;

/// End points (sites and border points) of a coordinator that serves others above it: it shows a path
/// between every two, 2,016 at most.
pub const UPWARD_POINTS_MAX: usize = 64;
/// Periods of one hold from above that are planned at such a coordinator, each as a request of its own: of
/// a change there is one, or two when it has begun and grows and moves its end.
pub const UPWARD_PERIODS_MAX: usize = 16;
/// How often a hold from above is planned again when others were faster inside,
pub const UPWARD_REPLANS_MAX: u32 = 1;
/// and until when a further attempt is begun: well within [`HOLD_PATIENCE`] of the one above.
pub const UPWARD_PATIENCE: Span = Span::from_secs(2);
/// Longest search for what to say above of a hold that has no plan.
pub const UPWARD_SHORT_TIME: Span = Span::from_millis(500);
/// Vertices of one federation. Indices are 32 bit; the bound keeps all-pairs tables in memory.
pub const VERTICES_MAX: usize = 10_000;
/// Edges of one federation.
pub const EDGES_MAX: usize = 100_000;
/// Resources one RM may own.
pub const RM_RESOURCES_MAX: usize = 10_000;

/// Shortest slot of a grid: the unit of time.
pub const SLOT_MIN: Span = Span::from_us(1);
/// Longest slot of a grid: a day. Coarser ones lose nearly all that is free between two bookings.
pub const SLOT_MAX: Span = Span::from_secs(86_400);
/// Slots of one availability vector: [`HORIZON_DEFAULT`] by the minute and some, 16 KiB. The papers
/// use 10,000.
pub const VECTOR_SLOTS_MAX: usize = 131_072;
/// Slots of all vectors of one picture together (slots x links x wavelengths, and those of clusters):
/// 256 MiB, which is 10,000 slots on each of [`EDGES_MAX`] edges in both directions.
pub const PICTURE_SLOTS_MAX: u64 = 1 << 31;

/// Most data of one task, in bytes: 1 PiB, whose bits fit 64 bits with room for every rounding.
pub const TASK_BYTES_MAX: u64 = 1 << 50;
/// Most work of one task on each of its CPUs, in million instructions: a thousand years at 25,000 MIPS.
pub const TASK_WORK_MAX_MI: u64 = 1 << 50;
/// Fastest CPU there is, in million instructions a second: 1,000 times today's.
pub const MIPS_MAX: u64 = 100_000_000;
/// What a CPU does when nobody says, in million instructions a second: that of both papers on tasks.
pub const MIPS_DEFAULT: u64 = 25_000;
/// Wavelengths of a link that are told apart: the C band at 25 GHz, and some.
pub const WAVELENGTHS_MAX: usize = 192;
/// How far the vectors of a task's picture reach when neither it nor its options say.
pub const TASK_HORIZON_DEFAULT: Span = Span::from_secs(3_600);
/// Slots that a vector usually has: the papers' `u`.
pub const TASK_SLOTS_USUAL: i64 = 10_000;
/// Most slots that a picture's guard may have: more than any path has links.
pub const GUARD_SLOTS_MAX: u32 = 1_000;
/// Plans of one task that can be asked for.
pub const TASK_PLANS_MAX: usize = 64;
/// How often a task may be planned in all, when its request does not say: after three refusals, each of which
/// has told how it is where it was refused, a fourth says that the resource is contended.
pub const TASK_TRIES_DEFAULT: u32 = 4;
/// The most that can be asked for.
pub const TASK_TRIES_MAX: u32 = 16;
/// Time between a task's planning and its first segment, when the coordinator's setting does not say: what a
/// planning and a round of messages take.
pub const TASK_LEAD_DEFAULT: Span = Span::from_millis(50);
/// How long a task is planned at most; a plan is older than its picture by that.
pub const TASK_PLANNING_MAX: Span = Span::from_secs(1);
/// How often a plan that was overtaken by the time is made again with a longer lead.
pub const TASK_LATE_MAX: u32 = 3;
/// Slots that can be asked for when a picture is looked at.
pub const PICTURE_SHOWN_SLOTS_MAX: u32 = 4_096;
/// Pause after a stream of profiles has ended, before the next one; doubled each time,
pub const PROFILES_RETRY: Span = Span::from_millis(100);
/// up to this.
pub const PROFILES_RETRY_MAX: Span = Span::from_secs(5);
/// A stream of profiles on which nothing was heard for so long is given up: its sign of life, with the
/// longest delay that there may be.
pub const PROFILES_SILENCE_MAX: Span =
    Span::from_us(5 * UPDATE_PROGRESS.as_us() + UPDATE_DELAY_MAX.as_us());
/// What was free before now is forgotten this often.
pub const PICTURE_SWEEP: Span = Span::from_secs(1);

/// Largest weight of an edge and limit of a sum in routing under constraints: products of four fit 128
/// bits, and as microseconds it is half an hour.
pub const ROUTE_WEIGHT_MAX: u64 = (1 << 31) - 1;
/// Paths that a multi-cost search remembers at a time, and
pub const SEARCH_PATHS_MAX: usize = 1 << 20;
/// words of their vectors: 256 MiB, which is 213,000 paths of 10,000 slots. Whoever lets several such
/// searches run at once has so much for each.
pub const SEARCH_WORDS_MAX: usize = 1 << 25;

/// Links inside one network domain. A hold looks at each of them, on the thread that owns the ledger.
pub const INNER_LINKS_MAX: usize = 1_000;
/// Most links a disclosed path may be routed over inside: a ring of 64 switches, the long way round.
pub const INNER_ROUTE_LINKS_MAX: u32 = 64;
/// The same when the configuration does not say.
pub const INNER_ROUTE_LINKS_DEFAULT: u32 = 16;
/// Routes listed for each disclosed path, to be tried beside the best one.
pub const INNER_WAYS: usize = 16;
/// Steps taken to list them: a network that is all short cuts has more routes than anyone can list.
pub const INNER_WAYS_NODES: usize = 20_000;
/// Demands up to which a route is searched with backtracking when no greedy order fits.
pub const INNER_SEARCH_DEMANDS: usize = 16;
/// Routes tried in such a search: some milliseconds, during which an RM answers nobody else.
pub const INNER_SEARCH_NODES: usize = 1_000;
/// Bookings routed anew in one search for room: the same bound for the same reason.
pub const INNER_MOVE_EFFORT: usize = 500;
/// Amounts tried to tell how much could be had by routing others anew.
pub const INNER_MOVE_GUESSES: usize = 4;
/// How long the thread that owns a ledger goes on with reads before inputs go first again, at least one read
/// each time: less than an fsync takes on a slow disk, so that holds do not notice.
pub const READS_TIME: Span = Span::from_millis(2);
/// Looks at a timetable that answering a query may take in one go of the thread that owns the ledger,
/// some milliseconds; between two goes it serves the protocol. Ten frames of 400 resources.
pub const QUERY_SLICE_WORK: usize = 4_096;
/// Searches for new routes of others in one query, shared out evenly over its frames: some hundred
/// milliseconds in all where 60 bookings are in the way, well within [`QUERY_PATIENCE`]. When they are
/// spent, what is told of a path is what it has without: a hold may find more.
pub const INNER_QUERY_SEARCHES: usize = 32;
/// Bookings routed anew in one of them: a search that succeeds does so early.
pub const INNER_QUERY_EFFORT: usize = 64;
/// What one of them counts, in looks at a timetable: a slice of a query has one.
pub const INNER_SEARCH_WORK: usize = QUERY_SLICE_WORK;
/// Segments looked through for bookings that may move in the time of one look at a timetable.
pub const INNER_ENTRIES_A_LOOK: usize = 16;
/// A booking is never routed anew when it begins within this time: whoever sets up the equipment reads
/// the route before that.
pub const INNER_MOVE_LEAD: Span = Span::from_secs(30);

/// Changes of profiles that a resource manager remembers for subscribers that are behind, some 3 MB: a
/// subscriber that has missed more gets a snapshot. At a thousand changes a second, those of a minute.
pub const CHANGES_KEPT: usize = 65_536;
/// Windows of all resources together in one delta of a resource manager whose resources change together (paths over
/// inner links): some milliseconds to put together. With more, a subscriber gets a snapshot.
pub const TOUCHED_MAX: usize = 65_536;
/// With a threshold it is looked so often in a period whether enough has changed: each look costs what has
/// changed since the last telling.
pub const THRESHOLD_LOOKS: i64 = 100;
/// But at least this often: "at once" is this much later at most.
pub const THRESHOLD_PAUSE_MAX: Span = Span::from_millis(100);
/// Steps of the profiles of one resource manager in a picture, about 160 MB: no honest one has as many, because
/// its timetables and its ledger would be larger still.
pub const PICTURE_STEPS_MAX: usize = 10_000_000;
/// Steps of profiles in one update; a snapshot of more comes in pieces. About 20 kB.
pub const UPDATE_STEPS_MAX: usize = 1_024;
/// Parts of one update: each has a step at least.
pub const UPDATE_PARTS_MAX: usize = UPDATE_STEPS_MAX;
/// Windows of one resource manager of which a scheduler knows something younger than the last update:
/// those of the holds that may be answered while an update is on its way.
pub const FACTS_KEPT: usize = 4_096;
/// Shortest and longest period of updates.
pub const UPDATE_PERIOD_MIN: Span = Span::from_millis(1);
/// See [`UPDATE_PERIOD_MIN`]: a scheduler that hears less often should ask instead.
pub const UPDATE_PERIOD_MAX: Span = Span::from_secs(3_600);
/// Longest added delay of updates, in experiments.
pub const UPDATE_DELAY_MAX: Span = Span::from_secs(60);
/// Updates that may be kept back by an added delay for one subscriber, and steps in them, some 2 MB. With more,
/// none are made until there is room again: what changes meanwhile goes with the next one.
pub const UPDATES_DELAYED_MAX: usize = 4_096;
/// See [`UPDATES_DELAYED_MAX`].
pub const UPDATE_STEPS_DELAYED_MAX: usize = 64 * UPDATE_STEPS_MAX;
/// Shortest time between two looks for one subscriber, so that what it costs the thread that owns the ledger does
/// not grow with the rate of changes.
pub const UPDATE_PAUSE: Span = Span::from_millis(1);
/// A subscriber that has heard nothing for so long is told that nothing has changed.
pub const UPDATE_PROGRESS: Span = Span::from_secs(1);

/// Refusals for want of disk room that a resource manager remembers, in segments of their orders: about
/// 8 MB. At a hundred refusals of one segment a second, those of five minutes, which is longer than any
/// message is on its way.
pub const ROOM_REFUSALS_KEPT: usize = 65_536;
/// Least room that a ledger keeps back in its main file for the ends of what has begun (I17), in bytes: some
/// 7,500 of them at 250 bytes, more holds than a node has at a time. A larger ledger keeps back a quarter of
/// what it has,
pub const LEDGER_ROOM_MIN: u64 = 2 << 20;
/// up to this: the ends of some 130,000 holds and bookings.
pub const LEDGER_ROOM_MAX: u64 = 32 << 20;
/// Room kept back for the write-ahead log: the thousand pages after which it begins anew (4.1 MB), and the last
/// batch before it does.
pub const LEDGER_LOG_ROOM: u64 = 6 << 20;
/// Free space, beyond the room, at which new holds are admitted again after a full disk. Without it every
/// record freed would open the door for one hold and close it again.
pub const LEDGER_ROOM_MARGIN: u64 = 1 << 20;
/// Free space, beyond the room, below which the disk counts as full while there is still some: what one batch
/// of large holds takes.
pub const LEDGER_FREE_MIN: u64 = 512 << 10;
/// How long an append may take before it is worth a warning: all that is in flight at the node waits for it.
pub const SLOW_SYNC: Span = Span::from_secs(1);

/// Largest message a server decodes, but for the three below.
pub const MESSAGE_MAX_BYTES: usize = 1 << 20;
/// Largest answer a client accepts (listings of bookings are paged below this).
pub const ANSWER_MAX_BYTES: usize = 16 << 20;
/// Bytes after which a page ends before its entries are complete: well below what a client accepts.
pub const PAGE_BYTES: usize = 4 << 20;
/// Entries of one page of a listing.
pub const PAGE_MAX: u32 = 10_000;
/// Entries of one page when the caller does not say.
pub const PAGE_DEFAULT: u32 = 1_000;
/// Reservations of a listing that are looked at in one go of the thread that owns the ledger,
pub const LIST_SLICE_LOOKS: usize = 512;
/// and copied there: some tenths of a millisecond, a small part of a sync.
pub const LIST_SLICE_COPIES: usize = 64;
/// Inputs that may wait for the owner of a core; one more is answered "busy, try again".
pub const INBOX_MAX: usize = 4_096;
/// Inputs whose records share one fsync. Larger batches gain nothing measurable and cost latency.
pub const GROUP_COMMIT_MAX: usize = 256;
/// Pause before a full inbox is tried again by a task that must not give up.
pub const BUSY_PAUSE: Span = Span::from_millis(20);
/// Pause before an RM that has not described itself is asked again.
pub const DESCRIBE_RETRY: Span = Span::from_millis(500);
/// How long after its start a coordinator lets requests wait for RMs that have not described themselves
/// yet: time for a connection and for being asked again a few times. Later, whoever has not is not there.
pub const DESCRIBE_PATIENCE: Span = Span::from_secs(3);
/// Pause before one that has is asked whether it is still the same. What was added to an inventory is used within
/// three seconds of the restart that brought it: this, and the time of an answer.
pub const DESCRIBE_REFRESH: Span = Span::from_secs(2);
/// Bookings that end in the same span of time are compared together, so that what is over drops out of every
/// comparison by itself: a restored ledger that lacks last year's costs nothing next year.
pub const RECONCILE_ERA: Span = Span::from_secs(7 * 86_400);
/// Parts that the bookings of one such span are dealt into: of 100,000 that end within a week, one
/// difference lists about 3,000.
pub const RECONCILE_SHARDS: u8 = 32;
/// Parts that one comparison may name: those of [`HORIZON_MAX`] and some.
pub const RECONCILE_PARTS_MAX: usize = 20_000;
/// Pages that one comparison may take: some millions of bookings, more than an RM has.
pub const RECONCILE_PAGES_MAX: usize = 64;
/// How often a coordinator compares its bookings with an RM's when nothing gives it another reason to.
pub const RECONCILE_EVERY: Span = Span::from_secs(3_600);
/// Pause before a difference is looked at a second time: longer than a message under way usually takes, so that
/// what is only late is not reported.
pub const RECONCILE_AGAIN: Span = Span::from_secs(3);
/// Differences that one comparison records, so that those who watch hear of them: of an RM that came back empty
/// with more than these, the rest is recorded by the comparisons after it.
pub const DIFFERENCES_RECORDED_MAX: usize = 4_096;
/// Pause before an RM whose comparison has failed is asked for one again.
pub const RECONCILE_RETRY: Span = Span::from_secs(10);
/// Differences with one RM that a coordinator keeps and tells; the others are counted. Those with a hundred RMs fit
/// one answer.
pub const DIFFERENCES_KEPT: usize = 1_000;
/// Reservations that one call gives an RM up of: further ones are left to the next.
pub const GIVE_UP_MAX: usize = 1_000;
/// Characters of an operator's reason.
pub const WHY_MAX: usize = 200;
/// Streams (calls in flight) of one connection.
pub const STREAMS_MAX: u32 = 1_024;
/// Calls in flight of one connection; more are refused at once.
pub const CALLS_MAX: usize = 1_024;
/// Connections of one server that have spoken HTTP/2; for one more the longest idle one makes way.
pub const CONNECTIONS_MAX: usize = 768;
/// The same where the system allows fewer files than all of them need.
pub const CONNECTIONS_MIN: usize = 32;
/// One part in so many of these places is never given to an address that has all others.
pub const CONNECTIONS_OTHERS_PART: usize = 8;
/// How long a connection may take to speak HTTP/2: its first 33 bytes travel with its first packet.
pub const SILENT_PATIENCE: Span = Span::from_secs(5);
/// Connections that have not spoken. For one more the oldest is closed,
pub const SILENT_MAX: usize = 128;
/// and so many of one address.
pub const SILENT_PER_PEER_MAX: usize = 96;
/// But none is closed for another before it had so much time: a client sends its first bytes once it is
/// connected, unless its machine is busy. 96 in 20 ms are 4,800 connections a second.
pub const SILENT_MIN: Span = Span::from_millis(20);
/// Connections that were told to leave, for others, and have not yet.
pub const LEAVING_MAX: usize = 64;
/// After this long a connection that was told to leave is cut, unless it has calls at work.
pub const LEAVING_PATIENCE: Span = Span::from_secs(1);
/// Connections that are being closed; with more, none is accepted until they are.
pub const CUT_MAX: usize = 32;
/// An answer of which a client takes nothing for so long is no reason to keep its connection. A stream has
/// something to tell at least every [`WATCH_PROGRESS`].
pub const ANSWER_PATIENCE: Span = Span::from_secs(30);
/// Connections that the system may keep for a server until it accepts them; it may allow fewer.
pub const LISTEN_BACKLOG: u32 = 4_096;
/// Open files of a daemon beside its live connections: other connections, the watchers' files, the ledger and
/// the calls to others.
pub const FILES_BESIDE_CONNECTIONS: usize =
    SILENT_MAX + LEAVING_MAX + CUT_MAX + 2 * WATCHERS_MAX + 96;
/// Open files that a daemon allows itself at its start, as far as the system lets it: enough for all of that, and
/// for a coordinator's connections to thousands of resource managers.
pub const FILES_WANTED: u64 = 4_096;
/// Pause after the system gave no connection (no files left, say), so that the server does not spin.
pub const ACCEPT_PAUSE: Span = Span::from_millis(100);
/// A silent client is asked for a sign of life this often,
pub const SERVER_KEEPALIVE: Span = Span::from_secs(10);
/// and dropped after this long without one.
pub const SERVER_KEEPALIVE_PATIENCE: Span = Span::from_secs(5);
/// A server that does not answer a call is asked for a sign of life this often,
pub const CLIENT_KEEPALIVE: Span = Span::from_millis(500);
/// and given up after this long without one.
pub const CLIENT_KEEPALIVE_PATIENCE: Span = Span::from_millis(500);
/// How long a connection may take to be made.
pub const CONNECT_PATIENCE: Span = Span::from_secs(2);
/// How long a daemon that was told to stop waits for calls in flight; streams never end by themselves.
pub const STOP_PATIENCE: Span = Span::from_secs(5);
/// Longest a call may take at a server, whatever its client says.
pub const CALL_TIME_MAX: Span = Span::from_secs(120);
/// How long a coordinator waits for one RM's availability before planning without it.
pub const QUERY_PATIENCE: Span = Span::from_secs(3);
/// Availability queries of one coordinator on their way to one RM. While they are, the frames of further
/// requests gather and travel together; with a second, a slow answer does not hold up all.
pub const QUERIES_IN_FLIGHT_MAX: usize = 2;
/// How long a question waits for others' queries and its own: one on its way before it, and its own.
pub const QUERY_QUEUE_PATIENCE: Span = Span::from_secs(7);
/// How long a coordinator lets one Hold, Commit, Abort or Release call run before it asks again.
pub const MESSAGE_PATIENCE: Span = Span::from_secs(5);
/// How long a Reserve call waits for the outcome before it answers "not finished, look here".
pub const RESERVE_PATIENCE: Span = Span::from_secs(60);

/// Watchers of one daemon; one more is answered "busy, try again". Each has a connection to the ledger
/// (two open files): see [`FILES_BESIDE_CONNECTIONS`].
pub const WATCHERS_MAX: usize = 64;
/// Records a watcher reads at once,
pub const WATCH_CHUNK: usize = 128;
/// and bytes of them after which it reads no more: with [`WATCH_BUFFER`], what bounds its memory.
pub const WATCH_CHUNK_BYTES: usize = 256 << 10;
/// Events of a watcher that wait for its client to take them; the ledger keeps the others.
pub const WATCH_BUFFER: usize = 16;
/// Shortest time between two looks of one watcher at the ledger, so that what it costs does not grow
/// with the rate of commits. Nobody who watches notices.
pub const WATCH_PAUSE: Span = Span::from_millis(10);
/// A watcher that has nothing to tell says where it stands this often.
pub const WATCH_PROGRESS: Span = Span::from_secs(10);
/// How long a reader waits for SQLite when the writer is just cutting its log.
pub const WATCH_READ_PATIENCE: Span = Span::from_secs(5);
/// A watcher that takes nothing for so long loses its place to others; its token brings it back.
pub const WATCH_STALL_MAX: Span = Span::from_secs(120);
/// Scrapes of metrics answered at a time; one more waits. One Prometheus and its twin are two.
pub const SCRAPES_MAX: usize = 8;
/// Longest one scrape may take, its reading and writing included: Prometheus gives up after 10 s.
pub const SCRAPE_PATIENCE: Span = Span::from_secs(10);
/// How long a scrape waits for a core to show itself before it shows the figures of the scrape before.
pub const SCRAPE_READ_PATIENCE: Span = Span::from_secs(1);
/// Methods that calls are counted apart by: all of the schema, health and reflection, with room.
pub const METHODS_COUNTED_MAX: usize = 64;
/// Spans that may wait for the collector; one more is dropped. A request of 13 RMs has about 150, so
/// this is some 100 requests, or 8 MB.
pub const SPANS_MAX: usize = 16_384;
/// Spans in one message to the collector.
pub const SPANS_BATCH_MAX: usize = 512;
/// Longest a span waits for others to be sent with.
pub const SPANS_PAUSE: Span = Span::from_secs(1);
/// How long the collector may take for one message, and a stopping daemon for the last ones.
pub const COLLECTOR_PATIENCE: Span = Span::from_secs(2);
/// Lost messages remembered so that sending them again can be counted; of more than these it is not.
pub const LOST_COUNTED_MAX: usize = 65_536;
/// Requests followed by traces at a time: far more than can be planned at once, so that whatever was
/// planned is followed through its two phases.
pub const TRACED_MAX: usize = 4_096;
/// Longest that `coalloc relay` delays what passes: longer than any keepalive, so that what a delay breaks
/// can be tried; a satellite takes 0.3 s.
pub const RELAY_DELAY_MAX: Span = Span::from_secs(10);
/// How late a piece comes at a relay's other side that was lost: the least time after which Linux sends again.
pub const RELAY_RESEND: Span = Span::from_millis(200);
/// Bytes under way in one direction of a relayed connection: 100 Mbit/s over 20 ms, and small beside the
/// memory of a container, however many connections.
pub const RELAY_WINDOW_BYTES: usize = 256 << 10;
/// How long one direction of a relayed connection may go on after the other has ended. An answer whose
/// question is over takes less, whatever the delay.
pub const RELAY_LAST_WORDS: Span = Span::from_secs(30);
/// Connections that one relay passes on at a time; one more waits. A coordinator has a handful to each RM.
pub const RELAY_CONNECTIONS_MAX: usize = 256;
/// Runs of one experiment: points of its sweep, times seeds. Each is a line of some hundred bytes in a file of
/// results that is kept in memory: a few hundred megabytes at most, and days of work.
pub const EXPERIMENT_RUNS_MAX: u64 = 1_000_000;
/// The first seed of an experiment: far from where the seeds behind it would not fit, and exact in JSON.
pub const EXPERIMENT_SEED_MAX: u64 = 1_000_000_000_000;
/// Pixels of one picture that is drawn as PNG: at four bytes each a quarter of a gigabyte of memory while it is drawn.
pub const PICTURE_PIXELS_MAX: u64 = 1 << 26;
/// Bytes that a solver which is a program of its own may write to one stream or file for one frame: what MiniSat+
/// and clasp say of the largest models is below a megabyte.
pub const OUTSIDE_OUTPUT_MAX: u64 = 16 << 20;
/// Time that such a program has to end when its own is over: to write what it has.
pub const OUTSIDE_GRACE: Span = Span::from_secs(1);

// A hold must outlive the coordinator's patience plus the margin it wants at the decision.
const _: () = assert!(HOLD_HARD_MIN.as_us() > HOLD_PATIENCE.as_us() + COMMIT_MARGIN.as_us());
const _: () = assert!(HOLD_SOFT_MAX.as_us() <= HOLD_HARD_DEFAULT.as_us());
const _: () = assert!(HOLD_SOFT_MIN.as_us() < HOLD_HARD_MIN.as_us());
const _: () = assert!(UPWARD_PATIENCE.as_us() < MESSAGE_PATIENCE.as_us());
const _: () = assert!(UPWARD_REPLANS_MAX <= REPLANS_MAX);
// One call is shorter than the patience for all of them, so that a lost Hold is sent twice.
const _: () = assert!(MESSAGE_PATIENCE.as_us() < HOLD_PATIENCE.as_us());
const _: () = assert!(RESERVE_PATIENCE.as_us() < CALL_TIME_MAX.as_us());
const _: () = assert!(QUERY_QUEUE_PATIENCE.as_us() > 2 * QUERY_PATIENCE.as_us());
// The default horizon can be had by the minute; the largest slot number fits 64 bits at any slot.
const _: () = assert!(HORIZON_DEFAULT.as_us() / 60_000_000 <= VECTOR_SLOTS_MAX as i64);
const _: () = assert!(SLOT_MIN.as_us() > 0 && TIME_MAX_US < i64::MAX / 4);
const _: () = assert!((EDGES_MAX as u64) * 2 * 10_000 <= PICTURE_SLOTS_MAX);
// The usual bound of 1,024 files still gives a server most of its places.
const _: () = assert!(2 * (1_024 - FILES_BESIDE_CONNECTIONS) > CONNECTIONS_MAX);
const _: () = assert!((CONNECTIONS_MAX + FILES_BESIDE_CONNECTIONS) as u64 <= FILES_WANTED);
// Silent connections of one address leave some to others, and a stream is never taken for a stalled answer.
const _: () = assert!(SILENT_PER_PEER_MAX < SILENT_MAX);
const _: () = assert!(ANSWER_PATIENCE.as_us() > 2 * WATCH_PROGRESS.as_us());
const _: () = assert!(LEDGER_ROOM_MIN <= LEDGER_ROOM_MAX && LEDGER_FREE_MIN < LEDGER_ROOM_MARGIN);
// A slow sync is told before whoever waits for it gives up.
const _: () = assert!(SLOW_SYNC.as_us() < MESSAGE_PATIENCE.as_us());
// A daemon that stops has sent its last spans before it is killed for taking too long.
const _: () = assert!(COLLECTOR_PATIENCE.as_us() < STOP_PATIENCE.as_us());
const _: () = assert!(TRACED_MAX > PLANNINGS_MAX);
const _: () = assert!(
    (HORIZON_MAX.as_us() / RECONCILE_ERA.as_us() + 2) * RECONCILE_SHARDS as i64
        <= RECONCILE_PARTS_MAX as i64
);
// A page may exceed its bytes by one entry, which is at most a message as it was admitted, with its plan.
const _: () = assert!(PAGE_BYTES + 4 * MESSAGE_MAX_BYTES <= ANSWER_MAX_BYTES);
// The dearest plan fits 64 bits: every site and every edge of every link at the highest value
// (milli-points: value per CPU x 1000, value per Gbit/s x Mbit/s).
const _: () = {
    let sites = (REQUEST_SITES_MAX as u128) * (CPUS_MAX as u128) * (UNIT_VALUE_MAX as u128) * 1000;
    let links = (REQUEST_LINKS_MAX as u128)
        * (ROUTE_EDGES_MAX as u128)
        * (BANDWIDTH_MAX_BPS as u128 / 1_000_000)
        * (UNIT_VALUE_MAX as u128);
    assert!(sites + links < i64::MAX as u128);
};
