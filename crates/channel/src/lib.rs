//! channel
#![no_std]
