//! What the sandbox costs, where there is one: `cargo bench -p mala-sandbox`.

#[cfg(target_os = "linux")]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
