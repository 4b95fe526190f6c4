# Builds the C library for a board of another build system. The including makefile sets
#
#   ANTEDATE_TRIPLE    the CPU, such as thumbv7m-none-eabi; empty for this machine
#   ANTEDATE_PREFIX    where include/ and lib/ go
#
# and a project may set
#
#   ANTEDATE_SUITE     suites, such as `ccm ccm-star-64`
#   ANTEDATE_AES       bitslice, table or callback (docs/src/firmware-engineers.md)
#   ANTEDATE_CAPACITY  bytes of payload that a context prepares
#
# The library is built once; `make antedate-clean` removes it.
ANTEDATE_ROOT := $(abspath $(dir $(lastword $(MAKEFILE_LIST)))/../..)
ANTEDATE_SUITE ?= ccm
ANTEDATE_AES ?= bitslice
ANTEDATE_LIBRARY := $(ANTEDATE_PREFIX)/lib/libantedate.a
# What the library of a machine with an operating system needs behind it.
ANTEDATE_BELOW := $(if $(ANTEDATE_TRIPLE),,-lpthread -ldl -lm)

# Flags of the other build system are not those of Rust.
$(ANTEDATE_LIBRARY):
	cd "$(ANTEDATE_ROOT)" && env -u CFLAGS -u LDFLAGS -u CC -u CARGO_TARGET_DIR -u CARGO_BUILD_TARGET -u RUSTFLAGS \
	  cargo xtask capi $(if $(ANTEDATE_TRIPLE),--target $(ANTEDATE_TRIPLE)) $(addprefix --suite ,$(ANTEDATE_SUITE)) \
	  --aes $(ANTEDATE_AES) $(if $(ANTEDATE_CAPACITY),--capacity $(ANTEDATE_CAPACITY)) --out "$(ANTEDATE_PREFIX)"

.PHONY: antedate-clean
antedate-clean:
	rm -rf "$(ANTEDATE_PREFIX)"
