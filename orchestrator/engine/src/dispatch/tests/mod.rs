mod endings;
mod landing;
mod phases;
mod stopping;
mod waiting;
mod world;
mod yielding;
