mod adversary;
mod rotation;
mod scenarios;
mod short_scis;
mod vectors;
mod world;
