package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cutie/queuefs/objects/objectstest"
	"cutie/testdata/long"
	"cutie/testdata/processes"
)

// A storeServer is a store that may be killed. Its objects stay.
type storeServer interface {
	Kill()
	Again()
}

// A memoryServer is a store in this process.
type memoryServer struct {
	t       *testing.T
	handler http.Handler
	address string
	http    *http.Server
}

func (s *memoryServer) Kill() { s.http.Close() }

func (s *memoryServer) Again() {
	l, err := net.Listen("tcp", s.address)
	must(s.t, err)
	s.address = l.Addr().String()
	s.http = &http.Server{Handler: s.handler}
	go s.http.Serve(l)
}

// A fleet is a cluster with faults: a network between each daemon and the store, and one
// before each daemon, for the other ones and for clients sent there.
type fleet struct {
	*cluster
	random      *rand.Rand
	store       storeServer
	doors, ways []*gate // before each daemon; from each to the store
	owner       int
	clients     []*loader
}

const fleetSize = 3

// newFleet starts the daemons.
func newFleet(t *testing.T, random *rand.Rand) *fleet {
	t.Helper()
	f := &fleet{random: random}
	var address string
	if long.On() {
		p := objectstest.Start(t)
		f.store, address = p, strings.TrimPrefix(p.Endpoint, "http://")
	} else {
		s := &memoryServer{t: t, handler: objectstest.Handler(new(objectstest.Memory)), address: "127.0.0.1:0"}
		s.Again()
		t.Cleanup(s.Kill)
		f.store, address = s, s.address
	}
	c := &cluster{T: t, base: "http://home.example.org:8080/", nodes: make([]*processes.Daemon, fleetSize), homes: make([]string, fleetSize)}
	c.options = []string{"--store", "s3://bucket/home", "--base-uri", c.base, "--takeover-after", takeoverAfter.String(),
		"--store-image", storeImage()}
	c.options = append(c.options, listEntries()...)
	c.client = through(t, func() string { return *c.door.Load() })
	f.cluster = c
	dir := t.TempDir()
	var at []*http.Client
	for i := range fleetSize {
		listen := ownAddress(rand.New(rand.NewPCG(rand.Uint64(), 0)))
		c.homes[i] = filepath.Join(dir, fmt.Sprint("home", i))
		f.doors, f.ways = append(f.doors, newGate(t, listen)), append(f.ways, newGate(t, address))
		c.own = append(c.own, []string{"--listen", listen, "--node-url", "http://" + f.doors[i].address(), "--store-endpoint", "http://" + f.ways[i].address()})
		c.direct = append(c.direct, "http://"+listen+"/")
		at = append(at, through(t, func() string { return listen }))
		c.start(i)
	}
	// A takeover takes its time, and each operation of it is verified.
	rest := time.Duration(long.N(int(60*time.Millisecond), 0))
	f.clients = newLoaders(crashClients/2, random.Uint64(), c.base, nil)
	for n, l := range f.clients {
		l.http, l.faults, l.rest = at[n%fleetSize], true, rest
	}
	return f
}

// others are the daemons but one.
func (f *fleet) others(but int) []int { return []int{(but + 1) % fleetSize, (but + 2) % fleetSize} }

// other is one of them.
func (f *fleet) other(but int) int { return f.others(but)[f.random.IntN(2)] }

// moment is up to a part of the time of a takeover.
func (f *fleet) moment() { time.Sleep(time.Duration(f.random.Int64N(int64(takeoverAfter / 2)))) }

// end kills a daemon, and in every second case its home is lost.
func (f *fleet) end(i int) {
	if err := f.nodes[i].Stop(syscall.SIGKILL); err == nil {
		f.Error("a daemon survived")
	}
	if f.random.IntN(2) == 0 {
		must(f, os.RemoveAll(f.homes[i]))
	}
}

// A wrong is a fault of a fleet under load. It is over when do returns.
type wrong struct {
	name string
	do   func(f *fleet)
}

var wrongs = []wrong{
	{"the owner is killed", func(f *fleet) {
		f.end(f.owner)
		f.cluster.owner(f.others(f.owner)...)
		f.start(f.owner)
	}},
	{"a standby is killed", func(f *fleet) {
		i := f.other(f.owner)
		f.end(i)
		f.moment()
		f.start(i)
	}},
	{"the owner and a standby are killed", func(f *fleet) {
		i := f.other(f.owner)
		f.end(i)
		f.end(f.owner)
		f.start(i)
		f.cluster.owner(f.others(f.owner)...)
		f.start(f.owner)
	}},
	{"the store is killed", func(f *fleet) {
		f.store.Kill()
		f.moment()
		f.store.Again()
	}},
	{"the store and the owner are killed", func(f *fleet) {
		f.store.Kill()
		f.end(f.owner)
		f.moment()
		f.store.Again()
		f.cluster.owner(f.others(f.owner)...)
		f.start(f.owner)
	}},
	{"the owner sleeps past its time", func(f *fleet) {
		p := f.nodes[f.owner].Cmd.Process
		sleep(f.T, p)
		f.cluster.owner(f.others(f.owner)...)
		must(f, p.Signal(syscall.SIGCONT))
	}},
	{"a standby sleeps", func(f *fleet) {
		p := f.nodes[f.other(f.owner)].Cmd.Process
		sleep(f.T, p)
		f.moment()
		f.moment()
		must(f, p.Signal(syscall.SIGCONT))
	}},
	{"another daemon takes the home of a live owner", func(f *fleet) {
		i := f.other(f.owner)
		f.end(i)
		own := f.own[i]
		f.own[i] = append(slices.Clip(own), "--takeover")
		f.start(i)
		f.own[i] = own
	}},
	{"the owner is cut off from the store", func(f *fleet) { f.cutOwner(shut, true) }},
	{"the owner hears nothing of the store", func(f *fleet) { f.cutOwner(hole, f.random.IntN(2) == 0) }},
	{"a standby is cut off from the store", func(f *fleet) {
		net := f.ways[f.other(f.owner)]
		net.set([]traffic{shut, hole}[f.random.IntN(2)], false)
		f.moment()
		f.moment()
		net.set(open, f.random.IntN(2) == 0)
	}},
	{"the store is slow", func(f *fleet) {
		for _, way := range f.ways {
			way.set(slow, false)
		}
		f.moment()
		for _, way := range f.ways {
			way.set(open, false)
		}
	}},
	{"the owner is cut off from the standbys", func(f *fleet) {
		f.doors[f.owner].set([]traffic{shut, hole}[f.random.IntN(2)], false)
		f.moment()
		f.doors[f.owner].set(open, f.random.IntN(2) == 0)
	}},
	{"the owner gives the home up", func(f *fleet) {
		if out, err := cutie(f.T, "handover", "--url", "http://"+f.doors[f.owner].address()); err != nil {
			f.Error(out, err)
		}
	}},
	{"a standby asks for the home", func(f *fleet) {
		if out, err := cutie(f.T, "takeover", "--url", "http://"+f.doors[f.other(f.owner)].address()); err != nil {
			f.Error(out, err)
		}
	}},
}

// cutOwner cuts the owner off from the store until there is another one.
func (f *fleet) cutOwner(how traffic, drop bool) {
	f.ways[f.owner].set(how, false)
	f.cluster.owner(f.others(f.owner)...)
	f.ways[f.owner].set(open, drop)
}

// suffer lets the clients at the fleet while something is wrong. It returns when all
// clients have stopped.
func (f *fleet) suffer(w wrong) *watcher {
	f.Helper()
	seen := &watcher{entries: map[string][]byte{}}
	stop := make(chan struct{})
	errs := make(chan error, len(f.clients))
	var wg sync.WaitGroup
	for _, c := range f.clients {
		c.stop = stop
		wg.Go(func() { errs <- c.run() })
	}
	get := getter(f.clients[0].http, f.nodes[f.random.IntN(fleetSize)].Node)
	wg.Go(func() {
		seen.run(func(path string) ([]byte, error) {
			select {
			case <-stop:
				return nil, io.EOF
			default:
				return get(path)
			}
		})
	})
	f.moment()
	w.do(f)
	f.moment()
	close(stop)
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			f.Error(err)
		}
	}
	return seen
}

// settle waits until one daemon owns the home, all others follow it, and nothing is on its
// way any more.
func (f *fleet) settle() {
	f.Helper()
	end := time.Now().Add(processes.Limit)
	for before := ""; ; time.Sleep(10 * processes.Again) {
		if time.Now().After(end) {
			f.Fatalf("the fleet does not come to rest: %s", before)
		}
		var owners []int
		now := ""
		for i := range f.nodes {
			o, err := f.ask(i)
			if err != nil {
				now = "" // it opens the home again
				break
			}
			if o.Role == "owner" {
				owners = append(owners, i)
			}
			now += fmt.Sprintf("%s %s %d; ", o.Role, o.Owner, o.Batch)
		}
		if now == "" || len(owners) != 1 {
			before = now
			continue
		}
		var s queueAnswer
		must(f, json.Unmarshal(f.get(owners[0], "state/jobs?t=json&limit=0"), &s))
		now += fmt.Sprint(s.Sequence)
		if f.owner = owners[0]; now == before {
			return
		}
		before = now
	}
}

// One thing after the other goes wrong for a home in a store under load. After each,
// what was acknowledged is there, nothing was handed out twice, numbers hold,
// what is published replays to the jobs there are, and all daemons have the same state.
// CUTIE_FAULT_ROUNDS is how often; CUTIE_CRASH_SEED repeats the choices, and CUTIE_FAULT is
// words of the faults to try alone.
func TestAHomeInAStoreSurvivesFaults(t *testing.T) {
	t.Parallel()
	seed := environment(t, "CUTIE_CRASH_SEED", rand.Uint64())
	t.Logf("CUTIE_CRASH_SEED=%d", seed)
	f := newFleet(t, rand.New(rand.NewPCG(seed, 0)))
	f.settle()
	f.enter(f.owner)
	l := newLedger(t, f.client, f.base)
	var order []int
	begun := time.Now()
	rounds := int(environment(t, "CUTIE_FAULT_ROUNDS", uint64(long.N(2, 2*len(wrongs)))))
	for round := range rounds {
		if len(order) == 0 {
			for _, i := range f.random.Perm(len(wrongs)) {
				if strings.Contains(wrongs[i].name, os.Getenv("CUTIE_FAULT")) {
					order = append(order, i)
				}
			}
		}
		w := wrongs[order[0]]
		order = order[1:]
		began := time.Now()
		seen := f.suffer(w)
		suffered := time.Since(began)
		f.settle()
		f.same(f.owner, documents...)
		f.enter(f.random.IntN(fleetSize))
		l.round(f.clients, seen)
		for i, d := range f.nodes {
			for _, word := range []string{"panic", "damage", "corrupt", "set aside"} {
				if said := d.Stderr.String(); strings.Contains(said, word) {
					t.Errorf("daemon %d said: %s", i, said)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("round %d: %s", round, w.name)
		}
		t.Logf("round %d, %v, of it %v to settle and to check, %d operations, %d jobs: %s", round, time.Since(began).Round(time.Millisecond), (time.Since(began) - suffered).Round(time.Millisecond), f.clients[0].count.Load(), len(l.jobs), w.name)
	}
	for _, i := range []int{(f.owner + 1) % fleetSize, (f.owner + 2) % fleetSize, f.owner} {
		if err := f.nodes[i].Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	out, err := cutie(t, "store", "check", "s3://bucket/home", "--store-endpoint", "http://"+f.ways[0].address())
	if err != nil || !strings.HasSuffix(out, " 0 faults\n") {
		t.Errorf("check: %v: %s", err, out)
	}
	t.Logf("%d rounds in %v, %d operations acknowledged, %d events, %d jobs", rounds, time.Since(begun).Round(time.Second), f.clients[0].count.Load(), l.replica.seq, len(l.jobs))
}

// A gate is a network between two processes: clients of its address reach another one,
// as long as it is open.
type gate struct {
	listener net.Listener
	to       string // address

	mu    sync.Mutex
	turn  sync.Cond // the way has changed
	way   traffic
	conns map[net.Conn]bool
	ended bool
}

// A traffic is how a gate treats connections.
type traffic int

const (
	open traffic = iota
	slow         // each piece of data waits
	hole         // data waits, and nobody is told
	shut         // connections end, and new ones are refused
)

// slowness is the wait of a piece of data.
const slowness = 20 * time.Millisecond

// newGate opens a gate to an address, for the length of a test.
func newGate(t *testing.T, to string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	g := &gate{listener: l, to: to, conns: map[net.Conn]bool{}}
	g.turn.L = &g.mu
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { g.carry(in) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		g.mu.Lock()
		g.ended = true
		g.drop()
		g.mu.Unlock()
		wg.Wait()
	})
	return g
}

// address is where clients reach the gate.
func (g *gate) address() string { return g.listener.Addr().String() }

// set changes the way. With drop connections end; else they go on, as after a cut that
// nobody saw.
func (g *gate) set(to traffic, drop bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.way = to
	if drop || to == shut {
		g.drop()
	}
	g.turn.Broadcast()
}

// drop ends all connections; mu is held.
func (g *gate) drop() {
	for c := range g.conns {
		c.Close()
	}
	clear(g.conns)
	g.turn.Broadcast()
}

// keep notes a connection, unless the gate is shut.
func (g *gate) keep(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || g.way == shut {
		c.Close()
		return false
	}
	g.conns[c] = true
	return true
}

// carry serves one connection.
func (g *gate) carry(in net.Conn) {
	if !g.keep(in) || !g.passes(in) {
		return
	}
	out, err := net.Dial("tcp", g.to)
	if err != nil || !g.keep(out) {
		in.Close()
		return
	}
	var wg sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		wg.Go(func() {
			defer pair[0].Close()
			defer pair[1].Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := pair[0].Read(buf)
				if n > 0 && g.passes(pair[0]) {
					_, err = pair[1].Write(buf[:n])
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, in)
	delete(g.conns, out)
}

// passes waits until data of a connection may pass; false if it has ended.
func (g *gate) passes(c net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.way == slow {
		g.mu.Unlock()
		time.Sleep(slowness)
		g.mu.Lock()
	}
	for g.way == hole && g.conns[c] {
		g.turn.Wait()
	}
	return g.conns[c]
}
