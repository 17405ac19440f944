# make          build/infer, the command-line program         make test     all tests of infer.h
# make run      let it write a story with a small model       make check    the fast part of it
# make help     the rest
CC ?= cc
CXX ?= c++
PYTHON ?= python3
CFLAGS ?= -O2
PREFIX ?= /usr/local
MINUTES ?= 1
MODEL ?= tests/data/models/stories260K.F32.gguf
PROMPT ?= Once upon a time
LIBS := -lm -lpthread $(if $(filter Linux,$(shell uname -s)),-ldl)
WARN := -Wall -Wextra
export CC CXX MINUTES

SRC := kernels_embed.h $(wildcard src/*.h src/*.c src/*/*.h src/*/*.c src/*/*/*.h src/*/*/*.c)
TESTS := $(wildcard tests/*.c tests/*.h)
TOOL := $(patsubst tools/infer/%.c,build/tool/%.o,$(wildcard tools/infer/*.c tools/infer/*/*.c tools/infer/*/*/*.c)) build/impl.o
# `infer serve` needs GNU libmicrohttpd; without it the program says so. HTTP= builds without it in any case. The folder serve/http needs the library; `infer map` shares the other files
HTTP := $(shell pkg-config --exists libmicrohttpd 2>/dev/null && echo yes)
ifeq ($(HTTP),yes)
HTTP_CFLAGS := -DCLI_HTTP $(shell pkg-config --cflags libmicrohttpd)
HTTP_LIBS := $(shell pkg-config --libs libmicrohttpd)
else
TOOL := $(filter-out build/tool/serve/http/%,$(TOOL))
endif
CHECK = $(CC) -std=c11 -g $(WARN) -DINFER_QUIET -Itests tests/check.c -o $@

build/infer: $(TOOL)
	$(CC) $(CFLAGS) $(LDFLAGS) $(TOOL) -o $@ $(HTTP_LIBS) $(LIBS)
build/tool/serve/%.o: CFLAGS += $(HTTP_CFLAGS)
build/tool/serve/serve.o: build/tool/http-$(HTTP)
build/tool/http-$(HTTP): | build/tool
	@rm -f build/tool/http-*
	@touch $@
build/tool/%.o: tools/infer/%.c infer.h $(wildcard tools/infer/*.h tools/infer/*/*.h tools/infer/*/*/*.h) | build/tool
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(WARN) -I. -c $< -o $@
# The implementation, for the program and the examples, some of which are shared libraries. tests/compile/run.py reads the log
build/impl.o: infer.h | build/tool
	$(CC) $(CFLAGS) $(WARN) -Wpedantic -Wshadow -fPIC -DINFER_IMPLEMENTATION -x c -c infer.h -o $@ 2>$@.log; status=$$?; cat $@.log >&2; exit $$status
# `infer-mpi`: the same commands, the model's layers over the ranks of an MPI job (docs/pipeline.md). Not a part of `make`
MPICC ?= mpicc
mpi: build/infer-mpi
build/infer-mpi: $(filter-out build/tool/main.o,$(TOOL)) build/mpi/infer_main.o $(patsubst tools/infer-mpi/%.c,build/mpi/%.o,$(wildcard tools/infer-mpi/*.c))
	$(MPICC) $(CFLAGS) $(LDFLAGS) $^ -o $@ $(HTTP_LIBS) $(LIBS)
build/mpi/infer_main.o: tools/infer/main.c infer.h $(wildcard tools/infer/*.h)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(WARN) -I. -Dmain=infer_main -c $< -o $@
build/mpi/%.o: tools/infer-mpi/%.c infer.h $(wildcard tools/infer/*.h tools/infer-mpi/*.h)
	@mkdir -p $(@D)
	$(MPICC) $(CFLAGS) $(WARN) -I. -c $< -o $@
build/libinfer.a: build/impl.o
	rm -f $@
	$(AR) rcs $@ $<
build/check: $(SRC) $(TESTS) | build/tool
	$(CHECK) -O1 $(LIBS)
build/check-h: infer.h $(TESTS) | build/tool
	$(CHECK) -O2 -DCHECK_INFER_H $(LIBS)
# Vector code takes sanitizers minutes to compile, so they have it with DEEP=1 alone, in programs of their own
DEEP_ := $(if $(filter 1,$(DEEP)),-deep)
SCALAR := $(if $(DEEP_),,-DINFER_NO_SIMD)
build/check-asan$(DEEP_): $(SRC) $(TESTS) | build/tool
	$(CHECK) -g1 -O1 $(SCALAR) -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer $(LIBS)
build/check-tsan$(DEEP_): $(SRC) $(TESTS) | build/tool
	$(CHECK) -g1 -O1 $(SCALAR) -fsanitize=thread $(LIBS)
build/bench_count: tests/bench_count.c tests/gguf_write.h $(SRC) | build/tool
	$(CC) -O2 $(WARN) -Wno-unused-function -DINFER_QUIET -Itests $< -o $@ $(LIBS)
build/bench_count_aarch64: tests/bench_count.c tests/gguf_write.h $(SRC) | build/tool
	aarch64-linux-gnu-gcc -O2 -w -static -DINFER_QUIET -Itests $< -o $@ -lm -lpthread
build/bench_count_riscv64: tests/bench_count.c tests/gguf_write.h $(SRC) | build/tool
	clang-19 --target=riscv64-linux-gnu -march=rv64gcv -O2 -w -static -fuse-ld=lld -DINFER_QUIET -DINFER_NO_RUNTIME_LINKING \
		-Itests $< -o $@ -lm -lpthread
build/qemu_count.so: tests/qemu_count.c | build/tool
	$(CC) -std=c11 -O2 $(WARN) -shared -fPIC $< -o $@
build/drivers/cuda/libcuda.so.1: $(wildcard tests/drivers/cuda/ptx*.[ch] tests/drivers/cuda/api*.c tests/drivers/cuda/fake.h)
	mkdir -p build/drivers/cuda
	$(CC) -std=gnu11 -O2 -ftree-vectorize -march=native -ffp-contract=off -fno-math-errno -fno-strict-aliasing $(WARN) -fvisibility=hidden -shared -fPIC \
		-pthread -Wl,-z,nodelete -o $@ $(filter %.c,$^) -lm
build/tool:
	mkdir -p $@

.PHONY: install dist doubles mpi run test check gpu san cross fuzz deep switches bench-switches bench bench-adapters bench-count bench-sample bench-gpu bench-text \
	amalgamate format help clean
run: build/infer
	@printf '%s' "$(PROMPT)"; build/infer run $(MODEL) -p "$(PROMPT)" -n 64 --temp 0
# two compilers side by side, unless this make was told how many; the tests take all cores by themselves
test:
	$(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j2) build/infer build/check-h
	$(PYTHON) tests/all.py test
check: build/check
	$(PYTHON) tests/all.py check
gpu: build/infer build/check-h
	$(PYTHON) tests/all.py gpu
san: build/check-h build/check-asan$(DEEP_) build/check-tsan$(DEEP_)
	$(PYTHON) tests/all.py san
cross: $(SRC)
	$(PYTHON) tests/all.py cross
fuzz: infer.h
	$(PYTHON) tests/all.py fuzz
deep:
	DEEP=1 $(MAKE) test gpu san cross
doubles: build/drivers/cuda/libcuda.so.1
switches: infer.h
	$(PYTHON) tests/compile/switches.py --pairs
bench-switches: infer.h
	$(PYTHON) tests/compile/switches.py --table $(if $(UPDATE),--write)
bench: build/infer
	build/infer bench $(MODEL)
build/bench_sample: tests/bench_sample.c $(SRC) | build/tool
	$(CC) -O2 $(WARN) -Wno-unused-function -DINFER_QUIET -Itests $< -o $@ $(LIBS)
build/bench_gpu: tests/bench_gpu.c $(SRC) | build/tool
	$(CC) -std=c11 -O2 -DINFER_QUIET -Itests tests/bench_gpu.c -o $@ $(LIBS)
bench-gpu: build/bench_gpu
	build/bench_gpu $(or $(BACKEND),cuda)
bench-sample: build/bench_sample
	build/bench_sample 101
build/bench_adapters: tests/bench_adapters.c $(SRC) | build/tool
	$(CC) -O2 $(WARN) -Wno-unused-function -DINFER_QUIET $< -o $@ $(LIBS)
bench-adapters: build/bench_adapters
	build/bench_adapters $(MODEL) $(LORA) $(or $(THREADS),1)
bench-count: $(if $(ARCH),,build/bench_count)
	$(PYTHON) tests/bench_count.py $(if $(UPDATE),--update) --types=$(TYPES) --arch=$(ARCH)
bench-text:
	$(PYTHON) tools/bench_text.py
amalgamate:
	$(PYTHON) tools/embed_kernels.py
	$(PYTHON) tools/embed_page.py
	$(PYTHON) amalgamate.py
format:
	$(PYTHON) tools/format.py
# The header, the implementation as a static library, infer.pc for pkg-config, and the program. DESTDIR: where packages collect files.
INTO = $(DESTDIR)$(PREFIX)
install: build/infer build/libinfer.a
	mkdir -p $(INTO)/bin $(INTO)/include $(INTO)/lib/pkgconfig
	cp build/infer $(INTO)/bin/infer
	cp infer.h $(INTO)/include/infer.h
	cp build/libinfer.a $(INTO)/lib/libinfer.a
	printf '%s\n' 'prefix=$(PREFIX)' 'Name: infer' 'Description: runs GGUF language models' \
		"Version: $$(sed -n '1s/^[^0-9]*\([0-9.]*\),.*/\1/p' infer.h)" 'Cflags: -I$${prefix}/include' 'Libs: -L$${prefix}/lib -linfer $(LIBS)' \
		>$(INTO)/lib/pkgconfig/infer.pc
dist:
	$(PYTHON) tools/dist.py
clean:
	rm -rf build
help:
	@echo "make              build/infer"
	@echo "make run          tell a story (MODEL=file.gguf PROMPT=text for another)"
	@echo "make test         the tests of infer.h; INFER_TEST_DATA=folder adds the large references"
	@echo "make check        the fast ones"
	@echo "make gpu          GPU kernels in every language, drivers on stand-ins, and what differs on machines that have less"
	@echo "make san          the tests under ASan + UBSan, TSan, MSan and valgrind, and the GPU kernels under oclgrind"
	@echo "make cross        the tests on other CPUs, as far as cross compilers and qemu-user are installed"
	@echo "make deep         test, gpu, san and cross with every kernel, shape and tool: hours"
	@echo "make fuzz         every fuzzer for MINUTES=1"
	@echo "make doubles      stand-ins for drivers of GPUs that are not there: tests/drivers"
	@echo "make switches     infer.h with each pair of INFER_NO_* switches, without warnings"
	@echo "make bench-switches  size and compile time with each of them (UPDATE=1: into docs/benchmarks.md)"
	@echo "make bench        tokens per second of MODEL"
	@echo "make bench-adapters  what an adapter costs a token (MODEL=file LORA=file THREADS=1)"
	@echo "make bench-sample milliseconds to choose a token, by stage and vocabulary"
	@echo "make bench-gpu    a GPU's bandwidth and its share in products of each storage type (BACKEND=cuda, hip, metal, opencl)"
	@echo "make bench-count  instructions of matrix products per storage type, against a table (UPDATE=1 TYPES=Q4_0,... ARCH=aarch64 or riscv64)"
	@echo "make bench-text   tokenizing, beside other tokenizers that are installed (INFER_TEST_DATA has the vocabularies)"
	@echo "make amalgamate   kernels/ -> kernels_embed.h, src/ -> infer.h, the chat page -> page_embed.h"
	@echo "make format       break lines of src/ that are too long"
	@echo "make install      the program, infer.h, libinfer.a and infer.pc, in PREFIX=/usr/local"
	@echo "make dist         build/dist: infer.h and LICENSE in an archive, and checksums"
	@echo "make clean        remove build/"
