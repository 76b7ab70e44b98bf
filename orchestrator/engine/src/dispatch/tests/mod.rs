mod endings;
mod phases;
mod stopping;
mod waiting;
mod world;
