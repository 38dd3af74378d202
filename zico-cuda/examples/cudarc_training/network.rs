//! A network with one hidden layer, and its memory.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use zico_core::{Block, Bytes, Job, Lifetime, Request};
use zico_cuda::CudaDevice;

use crate::AnyError;

const BATCH: u32 = 4096;
const INPUTS: u32 = 8;
const RATE: f32 = 0.02;
const LOOK: Duration = Duration::from_micros(200);

/// The result of a job.
pub(crate) struct Trained {
    pub(crate) first_loss: f32,
    pub(crate) last_loss: f32,
    pub(crate) peak: Bytes,
}

/// The functions of `kernels.ptx`.
pub(crate) struct Kernels {
    noise: CudaFunction,
    target: CudaFunction,
    product: CudaFunction,
    mask: CudaFunction,
    add: CudaFunction,
}

impl Kernels {
    pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, AnyError> {
        // SAFETY: cudarc orders uses of one slice on several streams by events. Here each slice is
        // used on one stream only, and what orders its memory's next use is zico.
        unsafe { context.disable_event_tracking() };
        let module = context.load_module(Ptx::from_src(include_str!("kernels.ptx")))?;
        Ok(Self {
            noise: module.load_function("train_noise")?,
            target: module.load_function("train_target")?,
            product: module.load_function("train_product")?,
            mask: module.load_function("train_mask")?,
            add: module.load_function("train_add")?,
        })
    }
}

/// A matrix: a block of zico's that `cudarc` sees as a slice. The slice is not the block's owner,
/// so it must not be dropped, which would free it.
struct Matrix {
    block: Block,
    data: ManuallyDrop<CudaSlice<f32>>,
    rows: u32,
    columns: u32,
}

impl Matrix {
    const fn len(&self) -> u32 {
        self.rows * self.columns
    }

    /// The layout: numbers of rows and columns, and their strides.
    const fn as_is(&self) -> View<'_> {
        View { of: self, shape: (self.rows, self.columns), steps: (self.columns, 1) }
    }

    const fn transposed(&self) -> View<'_> {
        View { of: self, shape: (self.columns, self.rows), steps: (1, self.columns) }
    }
}

#[derive(Clone, Copy)]
struct View<'m> {
    of: &'m Matrix,
    shape: (u32, u32),
    steps: (u32, u32),
}

/// The network and what it works with.
pub(crate) struct Network<'j> {
    on: Workshop<'j>,
    first: Matrix,
    second: Matrix,
}

/// Makes matrices and works on them, all on one stream.
struct Workshop<'j> {
    job: &'j Job<CudaDevice>,
    stream: &'j Arc<CudaStream>,
    kernels: &'j Kernels,
}

impl<'j> Network<'j> {
    pub(crate) fn new(
        job: &'j Job<CudaDevice>,
        stream: &'j Arc<CudaStream>,
        kernels: &'j Kernels,
        hidden: u32,
    ) -> Result<Self, AnyError> {
        let on = Workshop { job, stream, kernels };
        let mut first = on.alloc(INPUTS, hidden, Lifetime::Persistent)?;
        let mut second = on.alloc(hidden, 1, Lifetime::Persistent)?;
        on.noise(&mut first, 1, 0.5)?;
        on.noise(&mut second, 2, 0.1)?;
        Ok(Self { on, first, second })
    }

    /// One step of gradient descent on a batch of its own; returns the mean squared error before
    /// it.
    pub(crate) fn iteration(&mut self, number: u32) -> Result<f32, AnyError> {
        let on = &self.on;
        on.job.begin_blocking(None, LOOK)?;
        let mut inputs = on.alloc(BATCH, INPUTS, Lifetime::Iteration)?;
        let mut targets = on.alloc(BATCH, 1, Lifetime::Iteration)?;
        on.noise(&mut inputs, 100 + number, 1.0)?;
        on.target(&inputs, &mut targets)?;

        let mut hidden = on.product(inputs.as_is(), self.first.as_is())?;
        on.rectify(&mut hidden)?;
        let mut error = on.product(hidden.as_is(), self.second.as_is())?;
        on.add(&mut error, &targets, -1.0)?;
        on.free(targets)?;

        let second_gradient = on.product(hidden.transposed(), error.as_is())?;
        let mut gradient = on.product(error.as_is(), self.second.transposed())?;
        on.mask(&mut gradient, &hidden)?;
        on.free(hidden)?;
        let first_gradient = on.product(inputs.transposed(), gradient.as_is())?;
        on.free(gradient)?;
        on.free(inputs)?;

        let rate = -2.0 * RATE / BATCH as f32;
        on.add(&mut self.first, &first_gradient, rate)?;
        on.add(&mut self.second, &second_gradient, rate)?;
        on.free(first_gradient)?;
        on.free(second_gradient)?;

        // cudarc's own copy; it is enqueued behind the work above.
        let errors = on.stream.clone_dtoh(&*error.data)?;
        on.free(error)?;
        on.job.end()?;
        on.stream.synchronize()?;
        Ok(errors.iter().map(|error| error * error).sum::<f32>() / BATCH as f32)
    }

    pub(crate) fn end(self) -> Result<(), AnyError> {
        self.on.free(self.first)?;
        self.on.free(self.second)
    }
}

impl Workshop<'_> {
    fn alloc(&self, rows: u32, columns: u32, lifetime: Lifetime) -> Result<Matrix, AnyError> {
        let len = rows as usize * columns as usize;
        let bytes = Bytes::new(len as u64 * size_of::<f32>() as u64);
        let block = self.job.alloc_blocking(Request::new(bytes, lifetime), LOOK)?;
        // SAFETY: the block has that many bytes, and every element is written before it is read.
        let data = unsafe { self.stream.upgrade_device_ptr(block.address().value(), len) };
        Ok(Matrix { block, data: ManuallyDrop::new(data), rows, columns })
    }

    /// Frees in program order: enqueued work may still use the memory, and zico waits for it before
    /// another job gets the memory.
    fn free(&self, matrix: Matrix) -> Result<(), AnyError> {
        ManuallyDrop::into_inner(matrix.data).leak();
        Ok(self.job.free(matrix.block)?)
    }

    fn noise(&self, matrix: &mut Matrix, seed: u32, scale: f32) -> Result<(), AnyError> {
        let len = matrix.len();
        let mut launch = self.stream.launch_builder(&self.kernels.noise);
        launch.arg(&mut *matrix.data).arg(&len).arg(&seed).arg(&scale);
        // SAFETY: the kernel takes these parameters and writes `len` elements of the matrix.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }?;
        Ok(())
    }

    fn target(&self, inputs: &Matrix, targets: &mut Matrix) -> Result<(), AnyError> {
        let mut launch = self.stream.launch_builder(&self.kernels.target);
        launch.arg(&*inputs.data).arg(&mut *targets.data).arg(&inputs.rows).arg(&inputs.columns);
        // SAFETY: the kernel takes these parameters; there is a target for each row of the inputs.
        unsafe { launch.launch(LaunchConfig::for_num_elems(inputs.rows)) }?;
        Ok(())
    }

    fn product(&self, left: View<'_>, right: View<'_>) -> Result<Matrix, AnyError> {
        let ((rows, depth), (_, columns)) = (left.shape, right.shape);
        let mut product = self.alloc(rows, columns, Lifetime::Iteration)?;
        let mut launch = self.stream.launch_builder(&self.kernels.product);
        launch.arg(&*left.of.data).arg(&*right.of.data).arg(&mut *product.data);
        launch.arg(&rows).arg(&columns).arg(&depth);
        launch.arg(&left.steps.0).arg(&left.steps.1).arg(&right.steps.0).arg(&right.steps.1);
        // SAFETY: the kernel takes these parameters; the shapes are those of the matrices.
        unsafe { launch.launch(LaunchConfig::for_num_elems(rows * columns)) }?;
        Ok(product)
    }

    /// ReLU: elements below 0 become 0.
    fn rectify(&self, matrix: &mut Matrix) -> Result<(), AnyError> {
        let len = matrix.len();
        let mut launch = self.stream.launch_builder(&self.kernels.mask);
        launch.arg(&*matrix.data).arg(&*matrix.data).arg(&len);
        // SAFETY: the kernel takes these parameters; each thread reads its element before it writes
        // it.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }?;
        Ok(())
    }

    /// Gradient of ReLU: 0 where the activation is not above 0.
    fn mask(&self, matrix: &mut Matrix, by: &Matrix) -> Result<(), AnyError> {
        let len = matrix.len();
        let mut launch = self.stream.launch_builder(&self.kernels.mask);
        launch.arg(&mut *matrix.data).arg(&*by.data).arg(&len);
        // SAFETY: the kernel takes these parameters; both matrices have `len` elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }?;
        Ok(())
    }

    fn add(&self, to: &mut Matrix, what: &Matrix, scale: f32) -> Result<(), AnyError> {
        let len = to.len();
        let mut launch = self.stream.launch_builder(&self.kernels.add);
        launch.arg(&mut *to.data).arg(&*what.data).arg(&len).arg(&scale);
        // SAFETY: the kernel takes these parameters; both matrices have `len` elements.
        unsafe { launch.launch(LaunchConfig::for_num_elems(len)) }?;
        Ok(())
    }
}
