//! The kernels of zico-cuda's example `cudarc_training`, done by the host: what they compute is
//! said in its `kernels.ptx`.

use std::ffi::c_void;

use crate::{Done, memory};

/// A kernel with its parameters.
pub(crate) enum Training {
    Noise { x: u64, len: u32, seed: u32, scale: f32 },
    Target { x: u64, t: u64, rows: u32, columns: u32 },
    Product { a: u64, b: u64, c: u64, shape: [u32; 3], steps: [u32; 4] },
    Mask { x: u64, by: u64, len: u32 },
    Add { y: u64, x: u64, len: u32, scale: f32 },
}

impl Training {
    /// The kernel of this name, if it is one of these, with a copy of its parameters.
    ///
    /// # Safety
    /// The pointers have to be to as many parameters as the kernel has, each of its type.
    pub(crate) unsafe fn bind(name: &str, parameters: *mut *mut c_void) -> Option<Self> {
        // SAFETY: by the contract of this function; `at` is less than the number of parameters.
        let long = |at: usize| unsafe { (*parameters.add(at)).cast::<u64>().read() };
        // SAFETY: as above.
        let short = |at: usize| unsafe { (*parameters.add(at)).cast::<u32>().read() };
        let real = |at: usize| f32::from_bits(short(at));
        Some(match name {
            "train_noise" => {
                Self::Noise { x: long(0), len: short(1), seed: short(2), scale: real(3) }
            }
            "train_target" => {
                Self::Target { x: long(0), t: long(1), rows: short(2), columns: short(3) }
            }
            "train_product" => Self::Product {
                a: long(0),
                b: long(1),
                c: long(2),
                shape: [short(3), short(4), short(5)],
                steps: [short(6), short(7), short(8), short(9)],
            },
            "train_mask" => Self::Mask { x: long(0), by: long(1), len: short(2) },
            "train_add" => Self::Add { y: long(0), x: long(1), len: short(2), scale: real(3) },
            _ => return None,
        })
    }

    pub(crate) fn run(self) -> Done {
        match self {
            Self::Noise { x, len, seed, scale } => {
                let noise = (0..len).map(|i| mix(i.wrapping_mul(0x9E37_79B1).wrapping_add(seed)));
                let whole: Vec<f32> = noise.map(|hash| hash.cast_signed() as f32).collect();
                let value = |of: &f32| of * f32::from_bits(0x3000_0000) * scale;
                write(x, &whole.iter().map(value).collect::<Vec<_>>())
            }
            Self::Target { x, t, rows, columns } => {
                let x = read(x, rows as usize * columns as usize)?;
                let target = |row: &[f32]| row[0].abs() + row[1] - row[2];
                write(t, &x.chunks(columns as usize).map(target).collect::<Vec<_>>())
            }
            Self::Product { a, b, c, shape, steps } => product([a, b, c], shape, steps),
            Self::Mask { x, by, len } => {
                let (mut x_now, by) = (read(x, len as usize)?, read(by, len as usize)?);
                let masked = x_now.iter_mut().zip(by).filter(|(_, by)| *by <= 0.0);
                masked.for_each(|(x, _)| *x = 0.0);
                write(x, &x_now)
            }
            Self::Add { y, x, len, scale } => {
                let (mut sum, x) = (read(y, len as usize)?, read(x, len as usize)?);
                sum.iter_mut().zip(x).for_each(|(y, x)| *y = x.mul_add(scale, *y));
                write(y, &sum)
            }
        }
    }
}

/// The mixer of MurmurHash3.
fn mix(mut hash: u32) -> u32 {
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85EB_CA6B);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xC2B2_AE35);
    hash ^ (hash >> 16)
}

fn product([a, b, c]: [u64; 3], shape: [u32; 3], steps: [u32; 4]) -> Done {
    let [rows, columns, depth] = shape.map(|side| side as usize);
    let [a_row, a_column, b_row, b_column] = steps.map(|step| step as usize);
    // As far as the last element of each.
    let a = read(a, (rows - 1) * a_row + (depth - 1) * a_column + 1)?;
    let b = read(b, (depth - 1) * b_row + (columns - 1) * b_column + 1)?;
    let mut sums = vec![0f32; rows * columns];
    for (i, row) in sums.chunks_mut(columns).enumerate() {
        for k in 0..depth {
            let left = a[i * a_row + k * a_column];
            let right = b[k * b_row..].iter().step_by(b_column.max(1));
            row.iter_mut().zip(right).for_each(|(sum, right)| *sum += left * right);
        }
    }
    write(c, &sums)
}

fn read(address: u64, len: usize) -> Result<Vec<f32>, u32> {
    let mut numbers = Vec::with_capacity(len);
    memory::touch(address, len as u64 * 4, |word| numbers.push(f32::from_bits(*word)))?;
    Ok(numbers)
}

fn write(address: u64, numbers: &[f32]) -> Done {
    let mut next = numbers.iter();
    memory::touch(address, numbers.len() as u64 * 4, |word| {
        *word = next.next().map_or(0, |number| number.to_bits());
    })
}
