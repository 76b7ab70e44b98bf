//! Appends records to a chained log until it is killed or has appended enough, and says so after each one.
//!
//! `append_loop LOG WHO COUNT FULL`: files are full at FULL bytes.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;

use mala_logs::chain::ChainWriter;
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [log, who, count, full] = &args[..] else { return Err("four arguments are needed".into()) };
    let mut writer = ChainWriter::open_with(Path::new(log), full.parse()?)?;
    for number in 1..=count.parse::<u64>()? {
        let record = json!({"who": who, "number": number, "text": "some words ".repeat(20)});
        let link = writer.append(&record)?;
        writeln!(io::stdout(), "{}", link.seq)?;
    }
    Ok(())
}
