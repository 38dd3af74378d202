//! A training that a seed draws, as the steps of a trace.
//!
//! Not a recording: layers of any size, forwards and backwards, with what trainings do to memory
//! beside that. What comes of it is as regular as a training, and none that anybody has looked at.

use std::num::NonZeroU8;

use fastrand::Rng;
use zico_core::{Bytes, Lifetime, Ticks};
use zico_mock::trace::{BlockId, Iteration, Step, Trace};

/// The other stream, which brings the batches.
const LOADER: NonZeroU8 = NonZeroU8::MIN;

/// The bytes of one layer.
#[derive(Clone, Copy, Debug)]
struct Layer {
    weights: u64,
    /// What its backward needs of its forward.
    kept: u64,
    /// What it needs while it runs.
    scratch: u64,
}

/// When gradients go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zero {
    /// When the step is done.
    AfterStep,
    /// When the next iteration begins.
    AtBegin,
    /// Between its forward and its backward.
    BeforeBackward,
    /// Never: they are added to.
    Never,
}

/// How much larger or smaller than the first one an iteration is, in 64ths.
#[derive(Clone, Debug)]
enum Scale {
    Fixed,
    /// Some lengths, in any order.
    Lengths(Vec<u64>),
    /// More with each iteration, up to twice as much.
    Growing(u64),
}

/// Another kind of iteration, after each so many.
#[derive(Clone, Copy, Debug)]
struct Validation {
    every: usize,
    batches: usize,
    scale: u64,
    /// With marks of its own; else within the iteration before.
    is_marked: bool,
}

/// A training.
#[derive(Clone, Debug)]
pub struct Training {
    layers: Vec<Layer>,
    batch: u64,
    output: u64,
    zero: Zero,
    /// Of the optimizer, made by its first step, in multiples of the weights.
    states: u64,
    scale: Scale,
    validation: Option<Validation>,
    /// The next batch is there before the last one goes.
    prefetches: bool,
    /// The output and the loss stay until the next ones are there.
    keeps_output: bool,
    /// The optimizer steps after each so many iterations.
    accumulates: usize,
    /// A block that is replaced by a larger one with each layer.
    cache: Option<u64>,
    /// A copy of the weights that stays is made then.
    copies_at: Option<usize>,
    /// What KiB take on the device, in nanoseconds.
    pace: u64,
    iterations: usize,
    seed: u64,
}

/// Between these, each order of magnitude as likely as another.
fn about(rng: &mut Rng, least: u64, most: u64) -> u64 {
    let (least, most) = ((least as f64).ln(), (most as f64).ln());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some bytes")]
    let bytes = (least + (most - least) * rng.f64()).exp() as u64;
    bytes.max(1)
}

impl Training {
    /// What comes next of a seed.
    pub fn draw(rng: &mut Rng) -> Self {
        let alike = rng.bool();
        let size = about(rng, 256 << 10, 12 << 20);
        let mut layer = || Layer {
            weights: about(rng, 4 << 10, 6 << 20),
            kept: about(rng, size / 8 + 1, size),
            scratch: if rng.u8(..3) == 0 { about(rng, 1 << 10, 2 * size) } else { 0 },
        };
        let one = layer();
        let count = 2 + layer().weights % 14;
        let layers = (0..count).map(|_| if alike { one } else { layer() }).collect();
        let zeros = [Zero::AfterStep, Zero::AtBegin, Zero::BeforeBackward, Zero::Never];
        let scale = match rng.u8(..8) {
            0 | 1 => {
                let count = rng.usize(2..6);
                Scale::Lengths((0..count).map(|_| rng.u64(24..=64)).collect())
            }
            2 => Scale::Growing(rng.u64(1..8)),
            _ => Scale::Fixed,
        };
        let validation = (rng.u8(..3) == 0).then(|| Validation {
            every: rng.usize(2..8),
            batches: rng.usize(1..4),
            scale: rng.u64(16..200),
            is_marked: rng.bool(),
        });
        Self {
            layers,
            batch: about(rng, 1 << 10, size),
            output: about(rng, 512, 3 * size),
            zero: zeros[rng.usize(..zeros.len())],
            states: rng.u64(..3),
            scale,
            validation,
            prefetches: rng.u8(..3) == 0,
            keeps_output: rng.u8(..3) == 0,
            accumulates: if rng.u8(..5) == 0 { rng.usize(2..5) } else { 1 },
            cache: (rng.u8(..6) == 0).then(|| about(rng, 4 << 10, 512 << 10)),
            copies_at: (rng.u8(..6) == 0).then(|| rng.usize(1..12)),
            pace: about(rng, 20, 2000),
            iterations: rng.usize(6..24),
            seed: rng.u64(..),
        }
    }

    /// Its trace.
    ///
    /// # Panics
    /// If the steps make none: a mistake here.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a failure fails the test")]
    pub fn trace(&self, name: &str) -> Trace {
        let mut writer = Writer::new(self);
        let setup = writer.setup();
        let iterations = writer.iterations();
        let trace = Trace::new(name.to_owned(), "drawn".to_owned(), setup, iterations);
        trace.expect("the steps make sense")
    }
}

/// What of a training is alive.
struct Writer<'t> {
    training: &'t Training,
    rng: Rng,
    blocks: u32,
    steps: Vec<Step>,
    work: u64,
    done: Vec<Iteration>,
    gradients: Vec<Option<BlockId>>,
    has_states: bool,
    batch: Option<BlockId>,
    output: Option<BlockId>,
}

impl<'t> Writer<'t> {
    fn new(training: &'t Training) -> Self {
        let rng = Rng::with_seed(training.seed);
        let gradients = vec![None; training.layers.len()];
        let (steps, done, batch, output) = (Vec::new(), Vec::new(), None, None);
        let (blocks, work, has_states) = (0, 0, false);
        Self { training, rng, blocks, steps, work, done, gradients, has_states, batch, output }
    }

    fn setup(&mut self) -> Vec<Step> {
        for layer in &self.training.layers {
            self.alloc(layer.weights, Lifetime::Persistent);
        }
        std::mem::take(&mut self.steps)
    }

    fn iterations(mut self) -> Vec<Iteration> {
        for at in 0..self.training.iterations {
            let scale = self.scale(at);
            self.train(at, scale);
            let validation =
                self.training.validation.filter(|one| (at + 1).is_multiple_of(one.every));
            if let Some(one) = validation {
                if one.is_marked {
                    self.end();
                }
                (0..one.batches).for_each(|_| self.validate(scale * one.scale / 64));
            }
            self.end();
        }
        self.done
    }

    fn end(&mut self) {
        let work = Ticks::new(std::mem::take(&mut self.work));
        self.done.push(Iteration::new(std::mem::take(&mut self.steps), work));
    }

    fn scale(&mut self, at: usize) -> u64 {
        match &self.training.scale {
            Scale::Fixed => 64,
            Scale::Lengths(lengths) => lengths[self.rng.usize(..lengths.len())],
            Scale::Growing(by) => (64 + by * at as u64).min(128),
        }
    }

    fn alloc(&mut self, bytes: u64, lifetime: Lifetime) -> BlockId {
        let block = BlockId::new(self.blocks);
        self.blocks += 1;
        self.steps.push(Step::Alloc { block, bytes: Bytes::new(bytes.max(1)), lifetime });
        block
    }

    fn make(&mut self, bytes: u64, scale: u64) -> BlockId {
        self.alloc(bytes * scale / 64, Lifetime::Iteration)
    }

    fn free(&mut self, block: impl Into<Option<BlockId>>) {
        let block = block.into();
        self.steps.extend(block.map(|block| Step::Free { block }));
    }

    fn launch(&mut self, bytes: u64) {
        let work = (bytes >> 10) * self.training.pace + 3000;
        self.work += work;
        self.steps.push(Step::Launch { work: Ticks::new(work) });
    }

    fn train(&mut self, at: usize, scale: u64) {
        let training = self.training;
        if training.zero == Zero::AtBegin {
            self.zero_gradients();
        }
        let batch = self.fetch(scale);
        let kept = self.forward(scale);
        let output = self.make(training.output, scale);
        self.launch(training.output);
        if training.keeps_output {
            let last = self.output.replace(output);
            self.free(last);
        }
        if training.zero == Zero::BeforeBackward {
            self.zero_gradients();
        }
        self.backward(kept, scale);
        if !training.keeps_output {
            self.free(output);
        }
        if (at + 1).is_multiple_of(training.accumulates) {
            self.step();
        }
        if training.copies_at == Some(at) {
            training.layers.iter().for_each(|layer| {
                self.alloc(layer.weights, Lifetime::Persistent);
            });
        }
        self.free(batch);
    }

    /// The next batch; what of it goes with this iteration.
    fn fetch(&mut self, scale: u64) -> Option<BlockId> {
        let batch = self.make(self.training.batch, scale);
        if !self.training.prefetches {
            return Some(batch);
        }
        self.steps.push(Step::Use { block: batch, stream: LOADER });
        let last = self.batch.replace(batch);
        self.free(last);
        None
    }

    /// What the backward needs.
    fn forward(&mut self, scale: u64) -> Vec<BlockId> {
        let mut cache: Option<BlockId> = None;
        let kept = self.training.layers.iter().enumerate().map(|(at, layer)| {
            let scratch = (layer.scratch > 0).then(|| self.make(layer.scratch, scale));
            let kept = self.make(layer.kept, scale);
            self.launch(layer.kept + layer.weights);
            self.free(scratch);
            if let Some(bytes) = self.training.cache {
                let next = self.make(bytes * (at as u64 + 1), scale);
                self.launch(bytes);
                let last = cache.replace(next);
                self.free(last);
            }
            kept
        });
        let kept = kept.collect();
        self.free(cache);
        kept
    }

    fn backward(&mut self, kept: Vec<BlockId>, scale: u64) {
        let mut last = None;
        for (at, block) in kept.into_iter().enumerate().rev() {
            let layer = self.training.layers[at];
            let next = self.make(layer.kept, scale);
            self.launch(2 * layer.kept + layer.weights);
            self.free(last.replace(next));
            self.free(block);
            let gradient = self.alloc(layer.weights, Lifetime::Iteration);
            self.launch(layer.weights);
            match self.gradients[at] {
                Some(_) => self.free(gradient),
                None => self.gradients[at] = Some(gradient),
            }
        }
        self.free(last);
    }

    /// Those that are accumulated are there until the step.
    fn zero_gradients(&mut self) {
        if self.training.accumulates == 1 {
            self.free_gradients();
        }
    }

    fn free_gradients(&mut self) {
        for at in 0..self.gradients.len() {
            let gradient = self.gradients[at].take();
            self.free(gradient);
        }
    }

    fn step(&mut self) {
        let training = self.training;
        for layer in &training.layers {
            if !self.has_states {
                (0..training.states).for_each(|_| {
                    self.alloc(layer.weights, Lifetime::Persistent);
                });
            }
            let scratch = self.alloc(layer.weights, Lifetime::Iteration);
            self.launch(layer.weights * (1 + training.states));
            self.free(scratch);
        }
        self.has_states = true;
        if training.zero == Zero::AfterStep || training.accumulates > 1 {
            self.free_gradients();
        }
    }

    /// Forwards of which nothing is kept.
    fn validate(&mut self, scale: u64) {
        let batch = self.make(self.training.batch, scale);
        let mut last = None;
        for layer in &self.training.layers {
            let scratch = (layer.scratch > 0).then(|| self.make(layer.scratch, scale));
            let next = self.make(layer.kept, scale);
            self.launch(layer.kept + layer.weights);
            self.free(scratch);
            self.free(last.replace(next));
        }
        let output = self.make(self.training.output, scale);
        self.launch(self.training.output);
        self.free(last);
        self.free(output);
        self.free(batch);
    }
}
