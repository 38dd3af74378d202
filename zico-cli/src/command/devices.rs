//! `zico devices`

use std::io::Write;

use serde::Serialize;
use zico_cuda::{DeviceInfo, Discovery, discover};

use crate::args::Devices;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::table;
use crate::terminal::stdout;

/// Lists the CUDA devices. An empty list is an answer, not a failure.
pub(crate) fn run(args: &Devices) -> Result<Exit, Failure> {
    let found = discover();
    let mut out = stdout();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&DevicesJson::new(&found))?)?;
    } else {
        print(&mut out, &found)?;
    }
    Ok(Exit::Fine)
}

fn print(out: &mut impl Write, found: &Discovery) -> Result<(), Failure> {
    if let Some(version) = found.driver {
        writeln!(out, "CUDA driver for CUDA {version}")?;
    }
    if !found.devices.is_empty() {
        let mut all =
            table(&["device", "name", "memory", "compute", "virtual memory", "between processes"]);
        for device in &found.devices {
            all.add_row([
                format!("cuda:{}", device.ordinal),
                device.name.clone(),
                device.memory.to_string(),
                compute(device),
                device.granularity.map_or_else(
                    || "no: zico cannot use it".to_owned(),
                    |granularity| format!("in units of {granularity}"),
                ),
                if device.shareable { "yes" } else { "no" }.to_owned(),
            ]);
        }
        writeln!(out, "{all}")?;
    }
    if let Some(trouble) = &found.trouble {
        writeln!(out, "No {}CUDA device: {trouble}", more(found))?;
    }
    Ok(())
}

fn more(found: &Discovery) -> &'static str {
    if found.devices.is_empty() { "" } else { "further " }
}

fn compute(device: &DeviceInfo) -> String {
    format!("{}.{}", device.compute.0, device.compute.1)
}

#[derive(Serialize)]
struct DevicesJson {
    cuda_version: Option<String>,
    devices: Vec<DeviceJson>,
    trouble: Option<String>,
}

#[derive(Serialize)]
struct DeviceJson {
    device: String,
    name: String,
    uuid: String,
    memory_bytes: u64,
    compute_capability: String,
    virtual_memory: bool,
    granularity_bytes: Option<u64>,
    shareable: bool,
}

impl DevicesJson {
    fn new(found: &Discovery) -> Self {
        let device = |device: &DeviceInfo| DeviceJson {
            device: format!("cuda:{}", device.ordinal),
            name: device.name.clone(),
            uuid: device.uuid.to_string(),
            memory_bytes: device.memory.value(),
            compute_capability: compute(device),
            virtual_memory: device.granularity.is_some(),
            granularity_bytes: device.granularity.map(zico_core::Bytes::value),
            shareable: device.shareable,
        };
        Self {
            cuda_version: found.driver.map(|version| version.to_string()),
            devices: found.devices.iter().map(device).collect(),
            trouble: found.trouble.as_ref().map(ToString::to_string),
        }
    }
}
