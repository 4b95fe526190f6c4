//! The payload of a packet: a source and a destination of equal length, or one buffer changed in
//! place.

/// Source and destination of equal length.
pub enum Buffers<'a> {
    Apart(&'a [u8], &'a mut [u8]),
    InPlace(&'a mut [u8]),
}

impl<'a> Buffers<'a> {
    /// Two slices.
    ///
    /// # Panics
    /// If their lengths differ.
    pub(crate) fn apart(src: &'a [u8], dst: &'a mut [u8]) -> Self {
        assert_eq!(src.len(), dst.len(), "source and destination must have the same length");
        Self::Apart(src, dst)
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Apart(src, _) => src.len(),
            Self::InPlace(buffer) => buffer.len(),
        }
    }

    pub(crate) fn reborrow(&mut self) -> Buffers<'_> {
        match self {
            Self::Apart(src, dst) => Buffers::Apart(src, dst),
            Self::InPlace(buffer) => Buffers::InPlace(buffer),
        }
    }

    /// Copies the source over, so that the kernel works on the destination alone.
    pub(crate) fn into_in_place(self) -> &'a mut [u8] {
        match self {
            Self::Apart(src, dst) => {
                dst.copy_from_slice(src);
                dst
            }
            Self::InPlace(buffer) => buffer,
        }
    }

    /// The destination.
    pub(crate) fn into_destination(self) -> &'a mut [u8] {
        match self {
            Self::Apart(_, dst) => dst,
            Self::InPlace(buffer) => buffer,
        }
    }

    /// Source, destination and length.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn into_pointers(self) -> (*const u8, *mut u8, usize) {
        match self {
            Self::Apart(src, dst) => {
                assert_eq!(src.len(), dst.len());
                (src.as_ptr(), dst.as_mut_ptr(), dst.len())
            }
            Self::InPlace(buffer) => {
                let start = buffer.as_mut_ptr();
                (start.cast_const(), start, buffer.len())
            }
        }
    }
}
