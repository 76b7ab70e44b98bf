mod endings;
mod landing;
mod phases;
mod profiles;
mod stopping;
mod waiting;
mod world;
mod yielding;
