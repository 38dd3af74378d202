//! The constants that are a choice: the unit of each, what it does, and where its value comes from.
//!
//! *Measured*: other values were tried, and the figures stand at the place named. *Published*:
//! taken over from a paper. *Chosen*: by reasoning, or so that a bound holds; others may be as
//! good. What has to have its value for the code to be right (bits of a word, a number for none) is
//! not here but where it is used.

use super::units::{Bytes, Progress, Ticks};

// Sizes.

/// Bytes. Every block's size is rounded up to a multiple of it, and every address is one. Less
/// wastes less and makes more lengths to keep apart. Chosen: what CUDA's caching allocators round
/// to, so that a runtime finds what it is used to.
pub(crate) const GRANULE: u64 = 512;
/// Times the device's memory: the length of an arena's address range. No block ever has to move,
/// however its neighbours lie. Chosen; address space costs nothing.
pub(crate) const ADDRESSES_PER_BYTE: u64 = 2;
/// Parts of the budget, bytes: a region whose size is not given is that part of it, but not more
/// than 8 MiB. Fewer parts follow the waves less closely: chosen. CUDA maps a region in some 60 us,
/// of whatever size, and two jobs on a GPU that shared regions of 2 MiB spent a tenth of their time
/// in that; with 8 MiB small jobs hold at most 4% more than their blocks. Measured: docs/gpu.md,
/// docs/results.md.
pub(crate) const REGION_PARTS: (u64, Bytes) = (1 << 11, Bytes::mib(8));
/// Regions: a size that is not given leaves no more of them. An entry of the books takes some
/// hundred bytes of the host. Chosen.
pub(crate) const MOST_REGIONS_UNTOLD: u64 = 1 << 17;
/// Regions: more are refused, whatever size is given. Chosen: some hundred MB of the host.
pub(crate) const MOST_REGIONS: u64 = 1 << 20;

// Time.

/// How long others wait for a job that is between iterations and does nothing, if the pool is not
/// told. Chosen: longer than a step of anything, shorter than a person waits.
pub(crate) const PATIENCE: Ticks = Ticks::millis(60_000);
/// The same for one whose iteration is over when the next one begins, and has nothing left to free
/// until then: all that others wait for is to hear that no other one begins. Chosen: longer than
/// what lies between two steps as a rule. After that the job has no right to go first.
pub(crate) const PATIENCE_FOR_NOTHING: Ticks = Ticks::millis(1000);

// What is done under a lock at a time.

/// Regions or pages: how many are looked at while the ledger's lock is held, where a call has to do
/// with any number of them. More is fewer locks, less is shorter ones. Chosen.
pub(crate) const AT_A_TIME: usize = 1024;
/// Regions taken out of use at a time, each with calls of the device. Chosen.
pub(crate) const RETIRED_AT_A_TIME: usize = 64;

/// Bytes: a copy to the host or back is of no more, and what it frees is freed together: one job
/// comes while another goes, so far behind it. More is fewer calls, less frees sooner. Chosen: at
/// 25 GB/s it takes 0.7 ms.
pub(crate) const COPIED_AT_A_TIME: Bytes = Bytes::mib(16);

// Leases and fences.

/// Bytes given up that are fenced together. Less is more fences, more holds memory up. Published:
/// Zico's T.
pub(crate) const BATCH_BYTES: u64 = 8 << 20;
/// Entries of such a batch, so that one of regions that come and go stays small. Chosen.
pub(crate) const BATCH_REGIONS: usize = 64;
/// Iterations in a row in which a page has been mapped anew: then it gets a region of its own, if
/// there is one to spare. More is more calls of the device, fewer is more memory for pages that
/// come to rest by themselves. Chosen: resnet50 on a GPU maps 350, 100, 40, 20, 7 and 3 anew after
/// a plan, and then none; gpt2, of whose logits there are two for a time, 173 in each.
pub(crate) const MOVES_IN_A_ROW: u32 = 4;
/// Fences and completions, each told to a broker, that go together where nobody waits for them.
/// More is fewer of its wakes, less is books that are less far behind. Chosen: an iteration of gpt2
/// with 800 messages is told in some 100 packets, most of them with questions.
pub(crate) const TOLD_AT_ONCE: u32 = 32;
/// Free regions that are compared for a lease, beside as many as it has pages. More finds one that
/// is mapped there or used at like times more often, and takes longer. Chosen.
pub(crate) const REGIONS_COMPARED: usize = 64;
/// Sorts of pages, by when they are in use, that a lease chooses regions for apart. Chosen: with
/// the one above the bound that `Job::alloc` states.
pub(crate) const SORTS_OF_PAGES: usize = 64;

// A broker.

/// Parts of what a job's iteration takes at most: so many regions its process may get with a lease
/// beside those that it asks for. More saves questions, and holds more that may not be used.
/// Measured: docs/benchmarks.md.
pub(crate) const PARTS_AHEAD: u32 = 64;
/// Regions that a small job may get so. Chosen.
pub(crate) const LEAST_AHEAD: u32 = 4;
/// Pages that are looked at for them. Chosen: it takes less time than a message.
pub(crate) const PAGES_LOOKED_AHEAD: usize = 1024;

/// Jobs of one broker. More are turned away. Chosen: a decision costs O(jobs log jobs).
pub(crate) const MOST_JOBS: u32 = 1024;
/// Jobs of one client of a broker: one that goes mad leaves the others room. Chosen.
pub(crate) const MOST_JOBS_OF_A_CLIENT: u32 = 64;
/// Bytes of a job's name, as it travels. Chosen.
pub(crate) const LONGEST_JOB_NAME: usize = 128;

// Admission.

/// Bypasses: one that waits is passed over by so many, and by no more. More serves priorities and
/// the policy's order better, less is fairer. Chosen.
pub(crate) const MOST_BYPASSES: u32 = 16;
/// One over the part of what a job's iteration takes that the device may have yet to pass when the
/// next one starts, where the jobs do not all fit. Less lag leaves more for others, more keeps the
/// device busy. Measured: with 1000 launches ahead the 24 replays of three sets have 1.075 times
/// the throughput (told lifetimes) with a quarter, 1.070 with a half, 1.073 with nothing; with 64
/// ahead 1.001, 1.001, 0.997.
pub(crate) const LAGGING_PART: u32 = 4;
/// Interruptions of one iteration, at most: then it is told that there is no memory. More gives
/// others more time to free what they keep, less ends sooner what nothing helps. Chosen.
pub(crate) const MOST_INTERRUPTIONS: u32 = 4;
/// Looks at the waiting jobs in an iteration of another job, at most. Each takes O(jobs log jobs).
/// Chosen.
pub(crate) const LOOKS_PER_ITERATION: u32 = 1024;
/// Operations: the first step of a job, before its first iteration, has fewer; what holds memory
/// for longer is no step. Chosen.
pub(crate) const FIRST_WAVE: Progress = Progress::new(1 << 16);
/// Part of the most that a job has held: a detected iteration has not ended while more than that is
/// held. Chosen: what carries a loss or a counter over, no layer.
pub(crate) const CARRIED_PART: u32 = 64;
/// Part of another job's time: one that runs, whose iterations follow each other at once, has no
/// less if it can be helped. More is fairer, less leaves more overlap. Measured:
/// docs/policies.md.
pub(crate) const LEAST_PART_OF_TIME: (u64, u64) = (4, 5);
/// Iterations, the longest of all: the time of so many counts for that. More evens out more, less
/// gives a job that comes back less of a lead. Chosen.
pub(crate) const LATELY: u64 = 16;
/// Times: an iteration that takes more than so many times its usual length keeps nobody from
/// starting who has had more time. More serves jobs of uneven iterations, less those beside one
/// that has stopped to do something else. Chosen.
pub(crate) const LONG_ITERATION: u64 = 2;
/// Times: an iteration is short beside one that takes so many times as long, and room is kept
/// for it. Chosen.
pub(crate) const SHORT_ITERATION: u64 = 8;

// Arenas.

/// Units of 512 bytes: lengths below it have a bin each, those above share one if they differ by
/// less than a 2048th. Less takes less of the host, 71 kB an arena. Chosen: a region of 2 MiB is as
/// many units.
pub(crate) const EXACT_BINS: u64 = 1 << 12;
/// Places that are compared when an arena grows: those in which the block fits most tightly.
/// Chosen.
pub(crate) const PLACES_COMPARED: usize = 16;
/// Bare pieces that are looked at for those places. An arena with more holes of about one length
/// misses the tightest, but does not spend longer on a lease than the pool does. Chosen.
pub(crate) const PIECES_COMPARED: usize = 1 << 10;
/// Binary digits: a block of at most a page over 2 to the power of this lies in one page, so that
/// it keeps no more than one region, whatever it outlives. Chosen.
pub(crate) const SMALL_BLOCK: u32 = 4;
/// Streams other than its own that a job remembers to be known to the device. Chosen.
pub(crate) const STREAMS_KNOWN: usize = 64;

// Histories and plans.

/// Allocations of an iteration that are noted; what comes later in it is taken to be freed in it.
/// An iteration may never end. Chosen: 2 MB of the host.
pub(crate) const MOST_NOTED_ALLOCATIONS: usize = 1 << 18;
/// Allocations: an iteration of more is not planned. Chosen: planning takes some 100 ms there.
pub(crate) const MOST_PLANNED: usize = 1 << 16;
/// Allocations: an iteration of more gets the first plan that there is. Chosen.
pub(crate) const ONE_PLAN_FROM: usize = 1 << 14;
/// Steps for each block and binary digit of their number that fast plans take at most: all 44 of
/// them for lifetimes as iterations have them. Measured: resnet50 needs 25 plans, the other
/// recorded jobs three.
pub(crate) const PLAN_STEPS: u64 = 320;
/// How often a plan is made anew because blocks lived otherwise than it had foreseen. Chosen.
pub(crate) const PLANNED_ANEW: u32 = 4;
/// Iterations in a row that begin with something in the way of a plan, before its slots are moved
/// for the first time: that maps their pages anew. After each move twice as many. Chosen.
pub(crate) const OBSTRUCTED: u32 = 1;
/// Iterations in a row in which a block is gone early that a plan had foreseen to outlive the next
/// iteration, before one is noted again. Chosen.
pub(crate) const DOUBTS: u32 = 2;
/// Allocations: a time for which a page is empty is short if it is no longer ... Chosen.
pub(crate) const SHORT_GAP: usize = 8;
/// ... or no longer than this part of the iteration: a plan keeps the page through it. Chosen.
pub(crate) const SHORT_GAP_PART: usize = 32;
/// Steps for each allocation and binary digit of their number that looking for such times takes.
/// Chosen.
pub(crate) const GAP_STEPS: u64 = 64;

// What iterations are like.

/// Kinds of iteration that a job is known by: profiles and plans are kept for each. Chosen:
/// training, validation, and some lengths of sequence.
pub(crate) const KINDS: usize = 8;
/// Steps of a profile. A decision costs O(steps of all running jobs). Chosen.
pub(crate) const PROFILE_STEPS: usize = 256;
/// Steps that are noted of an iteration before they are coarsened. Chosen: it may never end.
pub(crate) const NOTED_STEPS: usize = 64 * PROFILE_STEPS;
/// Figures of past iterations that a maximum is taken of. Chosen.
pub(crate) const RECENT: usize = 8;
/// Regions: the margin of a claim is never less, whatever the iterations have shown. Chosen.
pub(crate) const LEAST_MARGIN: u32 = 1;
/// Iterations: until so many have ended, nothing starts beside one while lifetimes are learned,
/// and ... More is fewer that run side by side, less is more that need all at once. Chosen.
pub(crate) const LEARNING: u64 = 3;
/// ... the margin is at least this part of the promise. Chosen.
pub(crate) const LEARNING_PART: u32 = 64;
/// Iterations: after one of another kind than the one before it, or a new plan, the blocks of so
/// many may lie otherwise than in their like before. Measured on 91 pairs of recorded trainings:
/// one leaves more of them out of memory, and three are slower.
pub(crate) const REARRANGED: u32 = 2;
/// Regions: the margin of these is at least so many, two that are filled in part for each arena ...
/// Measured on the same: three leave more of them out of memory.
pub(crate) const REARRANGED_MARGIN: u32 = 4;
/// ... if these are no more than this part of the promise. Chosen.
pub(crate) const REARRANGED_PART: u32 = 4;
/// Of the last eight iterations: where more were of another kind than the one before, the margin is
/// what they have shown. Chosen.
pub(crate) const USUAL_CHANGES: u32 = 4;
/// Iterations of other kinds: one whose plan leaves blocks for the next iteration, and has not been
/// tried in so many, is taken to need what it did and what it leaves. Chosen: the kinds of a
/// job's usual rounds come within it.
pub(crate) const UNTRIED_PLAN: u32 = 16;
/// Iterations in a row that hold no more than those before: then the lifetimes of a job's blocks
/// are taken to be learned. Chosen ...
pub(crate) const STEADY: u32 = 2;
/// ... and this part of the most so far is no more; what it comes to is in the margin. Chosen.
pub(crate) const STEADY_PART: u32 = 16;
/// Claims of past iterations of which it is estimated what a new kind may take beyond all of them.
/// Chosen.
pub(crate) const NOVELTY_CLAIMS: usize = 16;
/// Iterations: no more are counted that have not exceeded the largest claim, which is forgotten
/// when so many new kinds have come after it. Chosen.
pub(crate) const NOVELTY_DRAWS: usize = 64;
/// Iterations: fewer tell nothing of the next one ... Chosen.
pub(crate) const NOVELTY_FEWEST: u64 = 3;
/// ... where they differ by more than this part of the largest. Chosen.
pub(crate) const NOVELTY_PART: u32 = 64;
/// New kinds of iteration: fewer tell nothing of one that is known to be new. Chosen.
pub(crate) const NOVELTY_KINDS: usize = 8;
/// How often the excess that is to be expected is added. Chosen.
pub(crate) const NOVELTY_FACTOR: u64 = 8;

// The detector of iterations nobody marks.

/// Allocations: the shortest period. Published: SmartPool's 100 operations, frees included.
pub(crate) const SHORTEST_PERIOD: u64 = 50;
/// Allocations: the longest period. Chosen: half of what is remembered.
pub(crate) const LONGEST_PERIOD: u64 = 1 << 15;
/// Allocations: no loop within an iteration makes more. Chosen.
pub(crate) const LONGEST_LOOP: u64 = 1 << 13;
/// Allocations: an iteration whose end is not found may end after so many, and is looked at each so
/// many. Chosen.
pub(crate) const OVERDUE: u64 = 1 << 10;
/// Part of what an iteration takes: it may end where no more than that is live beside the least.
/// Chosen.
pub(crate) const TROUGH_PART: u32 = 8;
/// Allocations that are remembered, a period and the one before: 8 bytes each. Chosen.
pub(crate) const REMEMBERED_ALLOCATIONS: usize = 1 << 16;
/// Sizes in a row that tell a candidate by their hash. Chosen.
pub(crate) const HASH_WINDOW: u64 = 16;
/// Places for hashes of windows: 8 bytes each. Chosen.
pub(crate) const HASH_PLACES: usize = 1 << 15;
/// Part of what is live: as much is live as a period ago if the difference is less. Something small
/// may be kept in each iteration. Chosen.
pub(crate) const SAME_LIVE_PART: u64 = 512;
/// Phases of an iteration of a job that marks phases: a longer cycle is not looked for, and each
/// mark ends an iteration. Chosen: five steps of a critic and one of a generator, and two to spare.
pub(crate) const LONGEST_CYCLE: usize = 8;
