//! The program. Built with `--cfg zico_bare` it has no std, as `.ci/no-std` does it, and exits with
//! 0 if all went well; built as usual it says what came of it.
#![cfg_attr(zico_bare, no_std, no_main)]

#[cfg(zico_bare)]
mod bare;

#[cfg(not(zico_bare))]
fn main() -> Result<(), zico_firmware::Trouble> {
    println!("{:?}", zico_firmware::run()?);
    Ok(())
}
