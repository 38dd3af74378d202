//! What an operation is, as far as strategies care.

/// The kinds of operations that published strategies tell apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A convolution.
    Convolution,
    /// A product of matrices, as of a fully connected layer.
    Product,
    /// A rectifier: what is negative becomes zero.
    Rectifier,
    /// Pooling.
    Pooling,
    /// Dropout, which draws random numbers.
    Dropout,
    /// Anything else.
    #[default]
    Other,
}

impl Kind {
    /// The kind that the name of an operation tells, in `PyTorch`, Keras or DTR's logs.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let has = |part: &str| {
            let windows = name.as_bytes().windows(part.len());
            windows.into_iter().any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
        };
        let ends = |part: &str| {
            let tail = name.len().checked_sub(part.len()).and_then(|at| name.get(at..));
            tail.is_some_and(|tail| tail.eq_ignore_ascii_case(part))
        };
        if has("pool") {
            Self::Pooling
        } else if has("relu") || has("threshold") || has("hardtanh") {
            Self::Rectifier
        } else if has("dropout") || has("droupout") {
            Self::Dropout
        } else if has("_bn") || has("_pad") || has("norm") {
            Self::Other
        } else if has("conv") {
            Self::Convolution
        } else if has("addmm") || has("bmm") || ends("mm") || has("linear") || has("matmul") {
            Self::Product
        } else {
            Self::Other
        }
    }

    /// Whether it is one of those that take most of the time: a convolution or a product.
    #[must_use]
    pub const fn is_heavy(self) -> bool {
        matches!(self, Self::Convolution | Self::Product)
    }
}
