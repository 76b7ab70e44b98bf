//! What calls cost in the sandbox, where there is one: `cargo bench -p mala-sandbox`.

#[cfg(target_os = "linux")]
mod linux;

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
