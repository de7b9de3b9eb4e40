# Everything here needs Go and make only; lint fetches its tools by version.
GO       ?= go
FUZZTIME ?= 5s

# Programs without the C library start a fifth faster, and are those of "make dist".
CGO_ENABLED ?= 0
export CGO_ENABLED

# Nobody debugs the programs of this file: a sixth less time of the compiler. In GOFLAGS all
# of them, and those that tests build, have what is compiled in common.
LEAN    := -gcflags=all=-dwarf=false
GOFLAGS := $(filter-out $(LEAN),$(GOFLAGS)) $(LEAN)
export GOFLAGS

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.8.0

# A server of the S3 API, for tests that start it: under its own license in a process of
# its own, and no part of the program.
STORE = github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Platforms to distribute for, and the flags of their programs.
ARCHS    ?= amd64 arm64
STATIC    = -trimpath -ldflags='-s -w -buildid='

# The program has its commit where git knows it, whatever the environment says.
VCS       = $(shell git status --porcelain >/dev/null 2>&1 && echo -buildvcs=auto)

.PHONY: run test store long race build man dist twice deb licenses bench fuzz lint vuln module

run: build
	./bin/cutie serve

# There is memory for the garbage of compiler and tests; "make lint" vets them. Tests wait
# as long as they work, so two for each processor run at a time.
ATATIME = $(shell echo $$((2 * $$(nproc))))

test:
	@test -x bin/versitygw || echo "skipped: tests with a real object store; make store builds one"
	GOGC=$${GOGC:-400} $(GO) test -p $(ATATIME) -vet=off -ldflags=-w ./...

store: bin/versitygw

bin/versitygw:
	GOBIN=$(CURDIR)/bin $(GO) install $(STORE)

# All tests as long as they can be: faults at every step, many kills; see
# testdata/long. After "make test" packages without one are not run again.
long:
	CUTIE_LONG=1 $(GO) test -vet=off -ldflags=-w -timeout 15m ./...

race:
	CGO_ENABLED=1 $(GO) test -race -vet=off -timeout 15m ./...

build:
	$(GO) build $(VCS) -o bin/cutie ./cmd/cutie

# A manual page for the program and for each command, in bin/man.
man: build
	mkdir -p bin/man/man1
	./bin/cutie help --man -o bin/man/man1/cutie.1
	for c in $$(./bin/cutie help -q); do ./bin/cutie help --man $$c -o bin/man/man1/cutie-$$c.1 || exit 1; done

# Static programs, with their sums.
dist:
	rm -rf bin/dist
	for arch in $(ARCHS); do \
	  CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build $(VCS) $(STATIC) -o bin/dist/cutie-linux-$$arch ./cmd/cutie || exit 1; \
	done
	cd bin/dist && sha256sum cutie-linux-* > SHA256SUMS

# Builds the programs of bin/dist again, in another directory and with nothing compiled
# before: the octets must be the same. It takes minutes.
twice: dist
	@there=$$(mktemp -d); trap 'chmod -R u+w "$$there"; rm -rf "$$there"' EXIT; trap 'exit 1' HUP INT TERM; \
	cp -r .git cmd publisher queuefs sitemap wellknown testdata go.mod go.sum Makefile README.md .gitignore .github .ci "$$there" && \
	$(MAKE) -C "$$there" dist GOCACHE="$$there/bin/cache" ARCHS='$(ARCHS)' && \
	for arch in $(ARCHS); do cmp bin/dist/cutie-linux-$$arch "$$there/bin/dist/cutie-linux-$$arch" || exit 1; done && \
	echo "the same octets: $(ARCHS)"

# Debian packages, bin/dist/cutie_VERSION-REVISION_ARCH.deb; needs dpkg-deb.
deb: dist man
	for arch in $(ARCHS); do cmd/cutie/packaging/deb $$arch || exit 1; done

# The libraries linked in with their licences; none may be copyleft.
licenses:
	mkdir -p bin
	$(GO) run ./testdata/licenses > bin/licenses.txt
	mv bin/licenses.txt cmd/cutie/licenses.txt

# Another path for this module, under which go get finds it on a forge:
# make module MODULE=forge.example/storage/cutie, and commit.
module:
	@test -n "$(MODULE)" || { echo "make module MODULE=PATH"; exit 1; }
	@now=$$($(GO) list -m); $(GO) mod edit -module $(MODULE); \
	find cmd publisher queuefs sitemap wellknown testdata -name '*.go' -exec \
	  sed -i -E "s#^(\t|import )([._a-z]+ )?\"$$now/([a-zA-Z0-9/_]*)\"\$$#\1\2\"$(MODULE)/\3\"#" {} +
	gofmt -w cmd publisher queuefs sitemap wellknown testdata

# Beside other queues, as far as they are installed; "bench --help" has kinds and options.
bench: build
	$(GO) run ./cmd/bench $(BENCH)

# Each fuzz target for FUZZTIME.
fuzz:
	GO='$(GO)' FUZZTIME='$(FUZZTIME)' sh testdata/fuzz.sh

lint:
	@bad=$$(gofmt -l .); test -z "$$bad" || { echo "gofmt: $$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

# Looks known vulnerabilities up, hence needs the network.
vuln:
	$(GO) run $(GOVULNCHECK) ./...
