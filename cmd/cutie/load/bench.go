package load

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The phases of a [Bench].
const (
	Submit  = "submit"
	Consume = "consume"
	Both    = "mixed" // every client submits and takes in turn
)

// ParsePhases reads a list of phases with commas between them.
func ParsePhases(list string) ([]string, error) {
	phases := strings.Split(list, ",")
	for _, p := range phases {
		if !slices.Contains([]string{Submit, Consume, Both}, p) {
			return nil, fmt.Errorf("phase %q: not %s, %s or %s", p, Submit, Consume, Both)
		}
	}
	return phases, nil
}

// Bench measures a daemon, phase by phase.
type Bench struct {
	Server   string // for the results
	Target   Target
	Phases   []string
	Clients  int           // 1 to 10000
	Jobs     int64         // of each phase; 0 for no limit
	Duration time.Duration // of each phase; 0 for no limit
	Size     int           // octets of a job, 0 to [MaxSize]
	Batch    int           // jobs a request, 1 to [MaxBatch]
	PID      int           // of the daemon, whose [Usage] is then measured; 0 for none
}

// MaxClients is the most clients of a run.
const MaxClients = 10000

// Check says what is wrong with the options, if anything.
func (b Bench) Check() error {
	switch {
	case b.Clients < 1 || b.Clients > MaxClients:
		return fmt.Errorf("%d clients: not 1 to %d", b.Clients, MaxClients)
	case b.Batch < 1 || b.Batch > MaxBatch:
		return fmt.Errorf("batch of %d: not 1 to %d", b.Batch, MaxBatch)
	case b.Size < 0 || b.Size > MaxSize:
		return fmt.Errorf("size %d: not 0 to %d octets", b.Size, MaxSize)
	case b.Jobs < 0:
		return fmt.Errorf("%d jobs: less than none", b.Jobs)
	case b.Duration < 0:
		return fmt.Errorf("duration %v: less than none", b.Duration)
	case b.Jobs == 0 && b.Duration == 0:
		return fmt.Errorf("neither a number of jobs nor a duration: would not end")
	case len(b.Phases) == 0:
		return fmt.Errorf("no phase")
	}
	return nil
}

// Run measures all phases and returns what the ended ones measured, also
// beside an error. Jobs that the consume phase does not find, although earlier
// phases submitted them, are errors in its result: something else has taken
// them, or they are lost.
func (b Bench) Run(ctx context.Context) (Report, error) {
	var report Report
	if err := b.Check(); err != nil {
		return report, err
	}
	payload, err := NewPayload(b.Size)
	if err != nil {
		return report, err
	}
	seen := NewSeen()
	pending := int64(0) // jobs that must at least be there
	for _, phase := range b.Phases {
		var usage func() (*Usage, error)
		if b.PID != 0 {
			if usage, err = Watch(b.PID); err != nil {
				return report, err
			}
		}
		res, err := Run(ctx, b.plan(phase), b.worker(phase, payload, seen))
		if err != nil {
			return report, err
		}
		res.Server = b.Server
		switch phase {
		case Submit:
			pending += res.Jobs
		case Consume:
			b.missing(&res, pending)
			pending = max(pending-res.Jobs, 0)
		}
		if usage != nil {
			if res.Usage, err = usage(); err != nil {
				return report, err
			}
		}
		report.Runs = append(report.Runs, res)
	}
	return report, nil
}

func (b Bench) plan(phase string) Plan {
	p := Plan{Phase: phase, Clients: b.Clients, Jobs: b.Jobs, Duration: b.Duration, Batch: b.Batch, Size: b.Size}
	if phase == Both {
		p.Steps = 2
	}
	return p
}

func (b Bench) worker(phase string, p *Payload, seen *Seen) func(context.Context, int) (Worker, error) {
	return func(ctx context.Context, client int) (Worker, error) {
		if phase == Consume {
			return NewConsumer(ctx, b.Target, p, seen, b.Batch)
		}
		s, err := NewSubmitter(ctx, b.Target, p, client, b.Batch)
		if err != nil || phase == Submit {
			return s, err
		}
		c, err := NewConsumer(ctx, b.Target, p, seen, b.Batch)
		if err != nil {
			s.Close()
			return nil, err
		}
		return &Mixed{Submitter: s, Consumer: c}, nil
	}
}

// missing counts the jobs that a consume phase should have found, unless its
// time was over or it failed otherwise.
func (b Bench) missing(res *Result, pending int64) {
	if b.Jobs > 0 {
		pending = min(pending, b.Jobs)
	}
	over := b.Duration > 0 && res.Seconds >= b.Duration.Seconds()
	if over || res.Errors > 0 || res.Jobs >= pending {
		return
	}
	res.Errors = pending - res.Jobs
	res.Failures = append(res.Failures, Failure{"submitted job was not there to consume", res.Errors})
}
