mod adversary;
mod rotation;
mod scenarios;
mod vectors;
mod world;
