//! The module files for Contiki-NG, RIOT and Zephyr, without the trees: makefiles and CMake with what
//! the trees set, and the example's shared part built and run.

use std::fs;
use std::path::Path;
use xtask::shell::{Run, program, root};

/// What Contiki-NG has set when it includes a module's makefile, and the rules that follow.
const CONTIKI: &str = "\
TARGET = native
BUILD_DIR = build
OBJECTDIR = $(BUILD_DIR)/obj
DEPDIR = $(OBJECTDIR)/.deps
all: $(BUILD_DIR)/exchange
include $(MODULE)/Makefile.antedate
$(DEPDIR):
\tmkdir -p $@
$(OBJECTDIR)/%.o: $(SOURCES)/%.c | $(DEPDIR)
\t$(CC) $(CFLAGS) -I$(SOURCES) -c $< -o $@
$(OBJECTDIR)/main.o: main.c | $(DEPDIR)
\t$(CC) $(CFLAGS) -I$(SOURCES) -c $< -o $@
$(BUILD_DIR)/exchange: $(OBJECTDIR)/exchange.o $(OBJECTDIR)/main.o $(PROJECT_LIBRARIES)
\t$(CC) $^ $(TARGET_LIBFILES) -o $@
";

/// The same for RIOT, which builds the package first.
const RIOT: &str = "\
export BOARD = native64
export BINDIR = $(CURDIR)/bin
all: bin/exchange
include $(MODULE)/Makefile.include
include $(MODULE)/Makefile.dep
package:
\t\"$(MAKE)\" -C $(MODULE) prepare
\t\"$(MAKE)\" -C $(MODULE)
bin/exchange: package
\tmkdir -p bin
\t$(CC) $(INCLUDES) -I$(SOURCES) $(SOURCES)/exchange.c main.c $(ARCHIVES) $(LINKFLAGS) -o $@
";

/// Stand-ins for the functions of Zephyr's tree, and the module as Zephyr adds it.
const ZEPHYR: &str = "\
cmake_minimum_required(VERSION 3.20)
project(stand_in C)
add_library(zephyr_interface INTERFACE)
function(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${ARGN})
endfunction()
function(zephyr_link_libraries)
  target_link_libraries(zephyr_interface INTERFACE ${ARGN})
endfunction()
set(CONFIG_ANTEDATE y)
set(CONFIG_ANTEDATE_SUITES \"ccm ccm-star-64\")
set(CONFIG_ANTEDATE_CAPACITY 128)
set(CONFIG_ANTEDATE_AES_TABLE y)
set(CONFIG_CPU_CORTEX_M3 y)
add_subdirectory(${MODULE} antedate)
";

/// Checks the module files with the library at `prefix`, below `folder`.
pub(super) fn check(folder: &Path, prefix: &Path) -> Result<(), String> {
    for (system, rules) in [("contiki-ng", CONTIKI), ("riot", RIOT)] {
        let at = folder.join(system);
        write(&at.join("Makefile"), rules)?;
        write(&at.join("main.c"), "#include \"exchange.h\"\nint main(void) { return exchange(0); }\n")?;
        let own = root().join("packaging/motes").join(system).join("antedate");
        let make = |words: &[&str]| {
            let mut make = program("make");
            make.arg("-C").arg(&at).args(words).arg(format!("MODULE={}", own.display()));
            make.arg(format!("SOURCES={}", root().join("packaging/motes").display()));
            make
        };
        // The module's rule, as it would build the library.
        let built = "cargo xtask capi --suite ccm --aes bitslice --out";
        // RIOT's package is another make, which `-n` runs.
        let said = make(&["-n", "ANTEDATE_PREFIX=elsewhere"]).read(30)?.replace('\\', "");
        let said = said.split_whitespace().collect::<Vec<&str>>().join(" ");
        if !said.contains(built) {
            return Err(format!("{system}: the library would not be built by \"{built}\": {said}"));
        }
        make(&[&format!("ANTEDATE_PREFIX={}", prefix.display())]).bounded(60)?;
        let place = if system == "riot" { "bin/exchange" } else { "build/exchange" };
        program(at.join(place)).bounded(10)?;
    }
    zephyr(&folder.join("zephyr"))
}

/// Zephyr's module builds the library for a Cortex-M3.
fn zephyr(at: &Path) -> Result<(), String> {
    write(&at.join("CMakeLists.txt"), ZEPHYR)?;
    let (module, built) = (root().join("packaging/motes/zephyr"), at.join("build"));
    program("cmake")
        .args(["-S"])
        .arg(at)
        .arg("-B")
        .arg(&built)
        .arg(format!("-DMODULE={}", module.display()))
        .bounded(60)?;
    program("cmake").arg("--build").arg(&built).args(["--target", "antedate_build"]).bounded(600)?;
    let header = built.join("antedate/antedate/include/antedate.h");
    let text = fs::read_to_string(&header).map_err(|e| format!("{}: {e}", header.display()))?;
    match text.contains("#define ANTEDATE_DOT15D4_SLOT_BYTES 368") {
        true => Ok(()),
        false => Err(format!("{}: it has no exact sizes of a Cortex-M3", header.display())),
    }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    super::write(path, text.as_bytes())
}
