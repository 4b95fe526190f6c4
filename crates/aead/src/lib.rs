//! aead
#![no_std]
