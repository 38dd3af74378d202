//! Programs of jobs, drawn from a seed. A program ends if each of its steps can be done.

use fastrand::Rng;
use zico_core::{Bytes, JobConfig, Lifetime, Pace, Ticks};

use crate::waves::{REGION, regions};

/// A step of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Begins an iteration.
    Begin,
    /// Ends it.
    End,
    /// Allocates a block and remembers it by a number; the lifetime is learned where there is none.
    Alloc(usize, Bytes, Option<Lifetime>),
    /// Frees it.
    Free(usize),
    /// Another thread of the job frees it, at some moment from now on.
    FreeElsewhere(usize),
    /// Another stream's work uses it.
    UseElsewhere(usize),
    /// Enqueues work of this many microseconds.
    Launch(u64),
    /// The job's stream refuses events for this many steps of all jobs together.
    Mute(u32),
    /// Does nothing until all others have done what they can.
    Sleep,
    /// Goes to the host.
    Suspend,
    /// Comes back, if it is there.
    Resume,
}

/// How a job's iterations are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// It marks them.
    Marked,
    /// They are detected.
    Detected,
    /// Not at all.
    Never,
}

/// What a job does after its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Leaves, with whatever is live.
    Leave,
    /// Frees all it has first.
    FreeAndLeave,
    /// Stays with all its blocks, idle for good.
    Stay,
}

/// What a job keeps from one iteration to the next, and when it frees that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carry {
    Nothing,
    /// Before its successor is made.
    Before,
    /// Right after that, as with `loss = ...` in a loop.
    After,
    /// At the end of the next iteration.
    AtEnd,
    /// Another thread frees it, whenever.
    Elsewhere,
    /// Never.
    Kept,
}

/// One job's program.
#[derive(Clone, Debug)]
pub struct Script {
    /// How its iterations are found.
    pub marks: Marks,
    /// It says beforehand what an iteration takes.
    pub declares: bool,
    /// What is reserved for it, in regions.
    pub floor: u64,
    /// It may not hold more than it needs.
    pub capped: bool,
    /// Its iterations are planned.
    pub planned: bool,
    /// The rate that it is held to.
    pub pace: Option<Pace>,
    /// It may be taken to the host between its iterations, after so much time on the device.
    pub slice: Option<Ticks>,
    /// An iteration that another one follows at once ends as that begins.
    pub follows: bool,
    /// It may be taken to the host where it waits for memory in an iteration.
    pub interruptible: bool,
    /// Of those that wait the higher one goes first.
    pub priority: i32,
    /// What it does.
    pub ops: Vec<Op>,
    /// And in the end.
    pub ending: Ending,
}

/// What all jobs of a run have in common.
#[derive(Clone, Copy)]
pub(super) struct Common {
    /// All blocks are whole regions, so that what is held can be counted exactly.
    pub(super) whole: bool,
}

/// A step of a wave, with numbers of its own.
#[derive(Clone, Copy)]
enum Wave {
    Alloc(usize, Bytes, Option<Lifetime>),
    Free(usize),
}

struct Writer<'r> {
    rng: &'r mut Rng,
    common: Common,
    ops: Vec<Op>,
    slots: usize,
    /// How many of 8 requests do not give a lifetime.
    learned: u8,
}

impl Script {
    /// A job's program.
    pub(super) fn draw(rng: &mut Rng, common: Common) -> Self {
        let marks = match rng.u8(..32) {
            0..2 => Marks::Detected,
            2..6 => Marks::Never,
            _ => Marks::Marked,
        };
        let learned = [0, 0, 8, 3][rng.usize(..4)];
        let mut writer = Writer { rng, common, ops: Vec::new(), slots: 0, learned };
        let dies = writer.program(marks);
        let Writer { rng, ops, .. } = writer;
        let ending = match rng.u8(..8) {
            // While an iteration runs no other job need make progress: the iteration has to end.
            _ if dies => Ending::Leave,
            0..3 if marks != Marks::Detected => Ending::Stay,
            3 | 4 => Ending::FreeAndLeave,
            _ => Ending::Leave,
        };
        Self {
            marks,
            declares: rng.u8(..4) == 0,
            floor: if rng.u8(..6) == 0 { rng.u64(1..5) } else { 0 },
            capped: rng.u8(..8) == 0,
            planned: rng.bool(),
            pace: None,
            slice: None,
            follows: false,
            interruptible: false,
            priority: 0,
            ops,
            ending,
        }
    }

    /// A job that is to be held to a rate, or not.
    pub(super) fn draw_pace(&mut self, rng: &mut Rng) {
        let every = Ticks::micros(rng.u64(1..2000));
        self.pace = rng.bool().then(|| Pace::new(rng.u32(1..40), every).burst(rng.u32(..20)));
    }

    /// A job that takes turns with others, or not. What it has on the device between its iterations
    /// it must not use there.
    pub(super) fn draw_turns(&mut self, rng: &mut Rng) {
        self.priority = rng.i32(0..2);
        if self.marks == Marks::Marked && rng.u8(..4) > 0 {
            self.slice = Some(Ticks::micros(rng.u64(..3000)));
            self.floor = 0;
        }
    }

    /// A job whose iterations end as the next ones begin, or not.
    pub(super) fn draw_follows(&mut self, rng: &mut Rng) {
        self.priority = rng.i32(-2..2).max(0);
        self.follows = self.marks == Marks::Marked && rng.u8(..4) > 0;
    }

    /// A job whose iterations may be interrupted, or not.
    pub(super) fn draw_interruptible(&mut self, rng: &mut Rng) {
        self.interruptible = rng.u8(..4) > 0;
    }

    /// Whether the iteration that ends at a step ends as the next one begins.
    pub(super) fn is_followed(&self, at: usize) -> bool {
        self.follows && self.ops.get(at + 1) == Some(&Op::Begin)
    }

    /// On which terms it joins.
    pub(super) fn config(&self, name: usize, declared: u64, cap: u64) -> JobConfig {
        let mut config = JobConfig::new(format!("job {name}")).floor(regions(self.floor));
        config = config.priority(self.priority);
        if let Some(slice) = self.slice {
            config = config.preemptible(slice);
        }
        if self.interruptible {
            config = config.interruptible();
        }
        if self.declares && self.marks != Marks::Never {
            config = config.declare(regions(declared));
        }
        if self.capped {
            config = config.cap(regions(cap));
        }
        if self.planned { config } else { config.without_plans() }
    }
}

impl Writer<'_> {
    /// All of it. Whether it stops in mid-iteration.
    fn program(&mut self, marks: Marks) -> bool {
        let mark = marks == Marks::Marked;
        let model: Vec<Bytes> = (0..self.rng.usize(..3)).map(|_| self.size()).collect();
        let early = self.rng.u8(..4) > 0;
        if early {
            model.iter().for_each(|&size| _ = self.alloc(size, Lifetime::Persistent));
        }
        let carry = match self.rng.u8(..12) {
            0..5 => Carry::Nothing,
            5 => Carry::Before,
            6 | 7 => Carry::After,
            8 => Carry::AtEnd,
            9 | 10 => Carry::Elsewhere,
            _ => Carry::Kept,
        };
        let carries = self.size();
        let mut carried = None;
        if carry != Carry::Nothing && self.rng.u8(..3) == 0 {
            carried = Some(self.alloc(carries, Lifetime::Iteration));
        }
        let varies = self.rng.u8(..6) == 0;
        let iterations = self.rng.usize(1..=6);
        // A job whose iterations are detected counts as within one until the detector knows better.
        let sleeps = self.rng.u8(..8) == 0 && marks != Marks::Detected;
        let sleeps = sleeps.then(|| self.rng.usize(..iterations));
        let dies = mark && self.rng.u8(..12) == 0;
        let mut wave = self.wave();
        for iteration in 0..iterations {
            self.pause(sleeps == Some(iteration), marks != Marks::Detected);
            if mark {
                self.ops.push(Op::Begin);
            }
            if iteration == 0 && !early {
                // The model is built in the first iteration, and kept for ever.
                model.iter().for_each(|&size| _ = self.alloc(size, Lifetime::Iteration));
            }
            if varies {
                wave = self.wave();
            }
            if let (Carry::Before, Some(old)) = (carry, carried.take_if(|_| carry == Carry::Before))
            {
                self.ops.push(Op::Free(old));
            }
            let start = self.ops.len();
            self.play(&wave);
            if dies && iteration + 1 == iterations {
                self.ops.truncate(self.rng.usize(start..=self.ops.len()));
                return true;
            }
            if carry != Carry::Nothing {
                self.carry_on(carry, carries, &mut carried);
            }
            if mark {
                self.ops.push(Op::End);
            }
        }
        false
    }

    /// Makes what is carried into the next iteration, and frees its predecessor.
    fn carry_on(&mut self, carry: Carry, size: Bytes, carried: &mut Option<usize>) {
        let new = self.alloc(size, Lifetime::Iteration);
        if let Some(old) = carried.replace(new) {
            match carry {
                Carry::After | Carry::AtEnd => {
                    if carry == Carry::AtEnd {
                        let wave = self.wave();
                        self.play(&wave[..1]);
                        self.ops.push(Op::Free(self.slots - 1));
                    }
                    self.ops.push(Op::Free(old));
                }
                Carry::Elsewhere => self.ops.push(Op::FreeElsewhere(old)),
                Carry::Nothing | Carry::Before | Carry::Kept => {}
            }
        }
    }

    /// Between two iterations.
    fn pause(&mut self, sleeps: bool, may_go: bool) {
        if sleeps {
            self.ops.push(Op::Sleep);
        }
        match self.rng.u8(..16) {
            0 => {
                let size = self.size();
                self.alloc(size, Lifetime::Persistent);
            }
            1 => {
                let size = self.size();
                let block = self.alloc(size, Lifetime::Persistent);
                self.ops.push(Op::Free(block));
            }
            2 => {
                let size = self.size();
                let block = self.alloc(size, Lifetime::Iteration);
                self.ops.push(Op::Launch(50));
                self.ops.push(Op::Free(block));
            }
            3 => self.ops.push(Op::Mute(self.rng.u32(1..60))),
            4 => self.ops.push(Op::Launch(self.rng.u64(1..2000))),
            5 | 6 if may_go => {
                self.ops.push(Op::Suspend);
                if self.rng.bool() {
                    self.ops.push(Op::Sleep);
                }
                self.ops.push(Op::Resume);
            }
            _ => {}
        }
    }

    fn size(&mut self) -> Bytes {
        if self.common.whole {
            return regions(self.rng.u64(1..=3));
        }
        Bytes::new(match self.rng.u8(..3) {
            0 => self.rng.u64(1..REGION.value() / 8),
            1 => self.rng.u64(1..REGION.value()),
            _ => self.rng.u64(1..REGION.value() * 3),
        })
    }

    fn lifetime(&mut self, usual: Lifetime) -> Option<Lifetime> {
        (self.rng.u8(..8) >= self.learned).then_some(usual)
    }

    fn alloc(&mut self, size: Bytes, lifetime: Lifetime) -> usize {
        let lifetime = self.lifetime(lifetime);
        self.ops.push(Op::Alloc(self.slots, size, lifetime));
        self.slots += 1;
        self.slots - 1
    }

    /// Blocks that come and go, all of them gone in the end.
    fn wave(&mut self) -> Vec<Wave> {
        let (mut wave, mut live, mut next) = (Vec::new(), Vec::new(), 0);
        for _ in 0..self.rng.usize(1..=4) {
            let temporary = self.rng.u8(..4) == 0;
            let (size, lifetime) = (self.size(), self.lifetime(Lifetime::Iteration));
            wave.push(Wave::Alloc(next, size, lifetime));
            if temporary {
                wave.push(Wave::Free(next));
            } else {
                live.push(next);
            }
            next += 1;
            if live.len() > 1 && self.rng.u8(..6) == 0 {
                wave.push(Wave::Free(live.swap_remove(0)));
            }
        }
        wave.extend(live.into_iter().rev().map(Wave::Free));
        wave
    }

    fn play(&mut self, wave: &[Wave]) {
        let first = self.slots;
        for &step in wave {
            match step {
                Wave::Alloc(block, size, lifetime) => {
                    self.ops.push(Op::Alloc(first + block, size, lifetime));
                    self.slots = self.slots.max(first + block + 1);
                    match self.rng.u8(..12) {
                        0 => self.ops.push(Op::UseElsewhere(first + block)),
                        1..6 => self.ops.push(Op::Launch(self.rng.u64(1..200))),
                        6 if self.rng.u8(..8) == 0 => {
                            self.ops.push(Op::Mute(self.rng.u32(1..40)));
                        }
                        _ => {}
                    }
                }
                Wave::Free(block) if self.rng.u8(..24) == 0 => {
                    self.ops.push(Op::FreeElsewhere(first + block));
                }
                Wave::Free(block) => self.ops.push(Op::Free(first + block)),
            }
        }
    }
}
