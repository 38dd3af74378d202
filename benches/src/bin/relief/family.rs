//! Training iterations of any size: networks of six kinds, drawn by a seed, with their backward
//! pass and the optimizer.
//!
//! A forward operation reads tensors and perhaps a parameter, and makes one tensor. Backward, it is
//! one operation for each tensor that it read, and one for the parameter's gradient; those read
//! what autograd would have saved: the inputs, the output, or a mask. Where a tensor was read twice
//! its gradients are added. In the end the optimizer updates each parameter and two states in
//! place.

use fastrand::Rng;
use zico_plan::relief::{Graph, Operation, Storage};

use crate::Failed;

/// A kind of network.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Network {
    /// Blocks of attention and of a wide layer.
    Transformer,
    /// Bottlenecks with a way around, ever smaller and with more channels.
    Residual,
    /// Each layer of a block reads all before it, joined.
    Dense,
    /// Down and up again; what goes down is read on the way up.
    Hourglass,
    /// Cells over time, in two layers.
    Recurrent,
    /// Layers that read one to three of the last dozen.
    Mesh,
}

impl Network {
    pub(crate) const ALL: [Self; 6] = [
        Self::Transformer,
        Self::Residual,
        Self::Dense,
        Self::Hourglass,
        Self::Recurrent,
        Self::Mesh,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Residual => "residual",
            Self::Dense => "dense",
            Self::Hourglass => "hourglass",
            Self::Recurrent => "recurrent",
            Self::Mesh => "mesh",
        }
    }

    /// An iteration of about so many operations.
    pub(crate) fn graph(self, operations: usize, seed: u64) -> Result<Graph, Failed> {
        // The fewest blocks with so many.
        let (mut low, mut high) = (0, 1);
        while self.draw(high, seed)?.operations().len() < operations {
            (low, high) = (high, 2 * high);
        }
        while high > low + 1 {
            let middle = low.midpoint(high);
            let enough = self.draw(middle, seed)?.operations().len() >= operations;
            (low, high) = if enough { (low, middle) } else { (middle, high) };
        }
        self.draw(high, seed)
    }

    /// One of so many blocks.
    fn draw(self, depth: usize, seed: u64) -> Result<Graph, Failed> {
        let mut net = Net::new(seed);
        match self {
            Self::Transformer => net.transformer(depth),
            Self::Residual => net.residual(depth),
            Self::Dense => net.dense(depth),
            Self::Hourglass => net.hourglass(depth),
            Self::Recurrent => net.recurrent(depth),
            Self::Mesh => net.mesh(depth),
        }
        net.train()
    }
}

/// What the backward pass of an operation reads beside the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saves {
    Nothing,
    Inputs,
    Output,
    Mask,
}

/// One operation of the forward pass.
#[derive(Clone, Debug)]
struct Layer {
    inputs: Vec<u32>,
    parameter: Option<u32>,
    output: u32,
    /// A second output, by chance.
    mask: Option<u32>,
    saves: Saves,
    nanos: u64,
}

struct Net {
    random: Rng,
    storages: Vec<Storage>,
    layers: Vec<Layer>,
    parameters: Vec<u32>,
}

/// Bytes that the memory of a device passes in a nanosecond, nanoseconds of a launch.
const BANDWIDTH: u64 = 1000;
const LAUNCH: u64 = 4000;
const MIB: u64 = 1 << 20;

impl Net {
    fn new(seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            storages: Vec::new(),
            layers: Vec::new(),
            parameters: Vec::new(),
        }
    }

    /// Up to a third more or less.
    fn vary(&mut self, value: u64) -> u64 {
        value.max(4) * self.random.u64(67..=150) / 100
    }

    fn storage(&mut self, storage: Storage) -> u32 {
        self.storages.push(storage);
        u32::try_from(self.storages.len() - 1).unwrap_or(u32::MAX)
    }

    fn bytes(&self, storage: u32) -> u64 {
        self.storages[storage as usize].bytes
    }

    fn input(&mut self, bytes: u64) -> u32 {
        self.storage(Storage { bytes, initial: true, ..Storage::default() })
    }

    /// An operation that is bound by memory.
    fn simple(&mut self, inputs: &[u32], bytes: u64, saves: Saves) -> u32 {
        let passed: u64 = inputs.iter().map(|&one| self.bytes(one)).sum::<u64>() + bytes;
        let nanos = LAUNCH + self.vary(passed / BANDWIDTH);
        self.layer(inputs, None, bytes, saves, nanos)
    }

    /// A product or a convolution with a parameter of so many bytes; `intensity`: how much longer
    /// it takes than its memory would.
    fn heavy(&mut self, input: u32, parameter: u64, bytes: u64, intensity: u64) -> u32 {
        let parameter = self.storage(Storage::persistent(parameter.max(1024)));
        self.parameters.push(parameter);
        let passed = (self.bytes(input) + bytes) / BANDWIDTH * intensity;
        let nanos = LAUNCH + self.vary(passed);
        self.layer(&[input], Some(parameter), bytes, Saves::Inputs, nanos)
    }

    fn layer(
        &mut self,
        inputs: &[u32],
        parameter: Option<u32>,
        bytes: u64,
        saves: Saves,
        nanos: u64,
    ) -> u32 {
        let output = self.storage(Storage::new(bytes.max(4096)));
        let mask = (saves == Saves::Mask).then(|| self.storage(Storage::new(bytes / 4 + 1)));
        let inputs = inputs.to_vec();
        self.layers.push(Layer { inputs, parameter, output, mask, saves, nanos });
        output
    }

    fn transformer(&mut self, blocks: usize) {
        let width = self.vary(4 * MIB);
        let scores = self.vary(6 * MIB);
        let mut at = self.input(width);
        for _ in 0..blocks {
            let normed = self.simple(&[at], width, Saves::Inputs);
            let [q, k, v] = [(); 3].map(|()| self.heavy(normed, MIB / 4, width, 8));
            let raw = self.simple(&[q, k], scores, Saves::Inputs);
            let soft = self.simple(&[raw], scores, Saves::Output);
            let dropped = self.simple(&[soft], scores, Saves::Mask);
            let mixed = self.simple(&[dropped, v], width, Saves::Inputs);
            let out = self.heavy(mixed, MIB / 4, width, 8);
            let sum = self.simple(&[at, out], width, Saves::Nothing);
            let normed = self.simple(&[sum], width, Saves::Inputs);
            let wide = self.heavy(normed, MIB, 4 * width, 8);
            let gelu = self.simple(&[wide], 4 * width, Saves::Inputs);
            let narrow = self.heavy(gelu, MIB, width, 8);
            at = self.simple(&[sum, narrow], width, Saves::Nothing);
        }
    }

    /// A convolution, a norm and a ReLU.
    fn convolution(&mut self, input: u32, bytes: u64, parameter: u64) -> u32 {
        let intensity = self.random.u64(2..12);
        let made = self.heavy(input, parameter, bytes, intensity);
        let normed = self.simple(&[made], bytes, Saves::Inputs);
        self.simple(&[normed], bytes, Saves::Output)
    }

    fn residual(&mut self, blocks: usize) {
        let mut bytes = self.vary(32 * MIB);
        let mut parameter = 64 << 10;
        let mut at = self.input(bytes);
        let stage = blocks.div_ceil(4);
        for block in 0..blocks {
            if block > 0 && block % stage == 0 {
                bytes /= 2;
                parameter *= 4;
                at = self.convolution(at, bytes, parameter);
            }
            let narrow = self.convolution(at, bytes / 4, parameter / 4);
            let middle = self.convolution(narrow, bytes / 4, parameter);
            let wide = self.heavy(middle, parameter / 4, bytes, 3);
            let normed = self.simple(&[wide], bytes, Saves::Inputs);
            let sum = self.simple(&[at, normed], bytes, Saves::Nothing);
            at = self.simple(&[sum], bytes, Saves::Output);
        }
    }

    fn dense(&mut self, layers: usize) {
        let mut bytes = self.vary(2 * MIB);
        let first = self.input(8 * bytes);
        let mut known = vec![first];
        for at in 0..layers {
            // A block ends: half the size, of a few channels.
            if at % 24 == 23 {
                let joined = self.simple(&known, 8 * bytes, Saves::Inputs);
                bytes = (bytes * 3 / 4).max(MIB / 4);
                known = vec![self.convolution(joined, 6 * bytes, MIB)];
            }
            let all = known.iter().map(|&one| self.bytes(one)).sum();
            let joined = self.simple(&known, all, Saves::Nothing);
            let normed = self.simple(&[joined], all, Saves::Inputs);
            let positive = self.simple(&[normed], all, Saves::Output);
            let narrow = self.heavy(positive, 256 << 10, 4 * bytes, 4);
            let normed = self.simple(&[narrow], 4 * bytes, Saves::Inputs);
            let grown = self.heavy(normed, 128 << 10, bytes, 6);
            known.push(grown);
        }
    }

    fn hourglass(&mut self, blocks: usize) {
        const LEVELS: usize = 5;
        let mut bytes = self.vary(48 * MIB);
        let mut at = self.input(bytes);
        let each = blocks.div_ceil(2 * LEVELS);
        let mut ways = Vec::new();
        for _ in 0..LEVELS {
            for _ in 0..each {
                let vary = self.vary(bytes);
                at = self.convolution(at, vary, MIB);
            }
            ways.push((at, bytes));
            bytes /= 2;
            at = self.simple(&[at], bytes / 2, Saves::Inputs);
        }
        while let Some((way, bytes)) = ways.pop() {
            let grown = self.heavy(at, MIB, bytes, 2);
            let all = self.bytes(way) + bytes;
            at = self.simple(&[way, grown], all, Saves::Nothing);
            for _ in 0..each {
                let vary = self.vary(bytes);
                at = self.convolution(at, vary, MIB);
            }
        }
    }

    fn recurrent(&mut self, steps: usize) {
        let bytes = self.vary(MIB);
        let mut states: Vec<[u32; 2]> =
            (0..2).map(|_| [(); 2].map(|()| self.input(bytes))).collect();
        let shared = [(); 2].map(|()| self.storage(Storage::persistent(8 * MIB)));
        self.parameters.extend(shared);
        for _ in 0..steps {
            let mut at = self.input(bytes);
            for (state, parameter) in states.iter_mut().zip(shared) {
                let [hidden, cell] = *state;
                let nanos = LAUNCH + self.vary(8 * bytes / BANDWIDTH * 6);
                let made = [at, hidden];
                let gates = self.layer(&made, Some(parameter), 4 * bytes, Saves::Inputs, nanos);
                let [input, forget, output] =
                    [(); 3].map(|()| self.simple(&[gates], bytes, Saves::Output));
                let kept = self.simple(&[forget, cell], bytes, Saves::Inputs);
                let added = self.simple(&[input, kept], bytes, Saves::Inputs);
                let bounded = self.simple(&[added], bytes, Saves::Output);
                at = self.simple(&[output, bounded], bytes, Saves::Inputs);
                *state = [at, added];
            }
        }
    }

    fn mesh(&mut self, layers: usize) {
        let bytes = self.vary(4 * MIB);
        let mut known = vec![self.input(bytes)];
        for _ in 0..layers {
            let size = (bytes << self.random.u32(0..5)) >> 2;
            let size = self.vary(size);
            let near = known.len().saturating_sub(12);
            let one = known[self.random.usize(near..known.len())];
            let made = match self.random.u32(0..4) {
                0 => self.heavy(one, MIB / 2, size, 6),
                1 => {
                    let other = known[self.random.usize(near..known.len())];
                    let last = known[known.len() - 1];
                    self.simple(&[one, other, last], size, Saves::Inputs)
                }
                2 => self.simple(&[one], size, Saves::Output),
                _ => self.simple(&[one, known[known.len() - 1]], size, Saves::Nothing),
            };
            known.push(made);
        }
    }

    /// The whole iteration.
    fn train(mut self) -> Result<Graph, Failed> {
        let layers = std::mem::take(&mut self.layers);
        let mut operations: Vec<Operation> = layers.iter().map(forward).collect();
        let backward = u32::try_from(operations.len())?;
        let mut gradients: Vec<Option<u32>> = vec![None; self.storages.len()];
        let mut own: Vec<Option<u32>> = gradients.clone();
        if let Some(last) = layers.last() {
            let bytes = self.bytes(last.output);
            let made = self.storage(Storage::new(bytes));
            operations.push(run(&[last.output], made, LAUNCH));
            gradients[last.output as usize] = Some(made);
        }
        for layer in layers.iter().rev() {
            let Some(gradient) = gradients[layer.output as usize] else { continue };
            let mut reads = vec![gradient];
            match layer.saves {
                Saves::Nothing => {}
                Saves::Inputs => reads.extend(&layer.inputs),
                Saves::Output => reads.push(layer.output),
                Saves::Mask => reads.extend(layer.mask),
            }
            for &input in &layer.inputs {
                if self.storages[input as usize].initial {
                    continue;
                }
                let reads: Vec<u32> = reads.iter().copied().chain(layer.parameter).collect();
                let into = &mut gradients[input as usize];
                self.give(&mut operations, into, input, &reads, layer.nanos);
            }
            if let Some(parameter) = layer.parameter {
                let into = &mut own[parameter as usize];
                self.give(&mut operations, into, parameter, &reads, layer.nanos);
            }
        }
        for parameter in std::mem::take(&mut self.parameters) {
            let Some(gradient) = own[parameter as usize] else { continue };
            let bytes = self.bytes(parameter);
            let states = [(); 2].map(|()| self.storage(Storage::persistent(bytes)));
            let writes = [states[0], states[1], parameter].to_vec();
            let nanos = LAUNCH + 7 * bytes / BANDWIDTH;
            operations.push(Operation { reads: vec![gradient], writes, nanos, repeatable: false });
        }
        Ok(Graph::new(self.storages, operations)?.with_backward(backward))
    }

    /// A gradient is made, and added to what there is of it.
    fn give(
        &mut self,
        operations: &mut Vec<Operation>,
        into: &mut Option<u32>,
        of: u32,
        reads: &[u32],
        nanos: u64,
    ) {
        let bytes = self.bytes(of);
        let made = self.storage(Storage::new(bytes));
        operations.push(run(reads, made, nanos));
        *into = Some(match *into {
            None => made,
            Some(before) => {
                let sum = self.storage(Storage::new(bytes));
                operations.push(run(&[before, made], sum, LAUNCH + 3 * bytes / BANDWIDTH));
                sum
            }
        });
    }
}

fn run(reads: &[u32], write: u32, nanos: u64) -> Operation {
    Operation { reads: reads.to_vec(), writes: vec![write], nanos, repeatable: true }
}

fn forward(layer: &Layer) -> Operation {
    let reads = layer.inputs.iter().copied().chain(layer.parameter).collect();
    let writes = [layer.output].into_iter().chain(layer.mask).collect();
    // A mask is by chance.
    Operation { reads, writes, nanos: layer.nanos, repeatable: layer.mask.is_none() }
}
