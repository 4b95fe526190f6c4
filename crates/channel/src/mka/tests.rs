mod adversary;
mod destinations;
mod rotation;
mod scenarios;
mod short_scis;
mod vectors;
mod world;
