package content

import (
	"sync"

	"cutie/queuefs/index"
	"cutie/queuefs/job"
	"cutie/queuefs/ledger"
	"cutie/queuefs/packs"
	"cutie/queuefs/tree"
)

// A Pass reads the jobs of a queue in their order, for a package: small pending ones from
// the packs of their pages, where there are some. Its methods are safe for concurrent use,
// by goroutines less than a page apart.
type Pass struct {
	of *Reader

	mu   sync.Mutex
	last [2]packs.Page // the last ones read
}

// Pass returns a new one.
func (r *Reader) Pass() *Pass { return &Pass{of: r} }

// JobFile is [Reader.JobFile].
func (p *Pass) JobFile(id job.ID, st job.Status) ([]byte, job.Facts, error) {
	if v, ok := p.of.Ledger.View(id); ok && st == job.Pending && v.Status == st && v.Journaled.File == 0 {
		if text := p.copyOf(id).File(v.FileSHA256); text != nil {
			return text, ledger.FileFacts(&v.Job), nil
		}
	}
	return p.of.JobFile(id, st)
}

// Payload is [Reader.Payload].
func (p *Pass) Payload(id job.ID) (*tree.Payload, error) {
	if v, ok := p.of.Ledger.View(id); ok && v.Status == job.Pending && v.Journaled.Payload == 0 {
		if data := p.copyOf(id).Data(v.SHA256); data != nil {
			return tree.PayloadOf(data), nil
		}
	}
	return p.of.Payload(id)
}

// copyOf returns the copy of a job, nil without one.
func (p *Pass) copyOf(id job.ID) *packs.Copy {
	n := int(id / index.PageJobs)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.last {
		if p.last[i].Jobs != nil && p.last[i].Number == n {
			return p.last[i].Jobs[id]
		}
	}
	_, _, pending, _ := p.of.Ledger.PageVersion(n)
	p.last[0], p.last[1] = p.last[1], p.of.Packs.Page(n, pending)
	return p.last[1].Jobs[id]
}
