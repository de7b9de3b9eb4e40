package ledger

import "slices"

// A ResultBacklog is the difference between journal and files in the results of a job.
// Its values are kept by callers while it goes on, so its slices are never changed in
// place.
type ResultBacklog struct {
	wipes int      // how often all results went
	place []Placed // new ones since
	drop  []string // temporary files of removed results
}

// Add notes a new result.
func (b *ResultBacklog) Add(p Placed) { b.place = append(slices.Clip(b.place), p) }

// Wipe notes that all results go.
func (b *ResultBacklog) Wipe() {
	b.wipes++
	b.drop = slices.Clip(b.drop)
	for _, p := range b.place {
		b.drop = append(b.drop, p.Temp)
	}
	b.place = nil
}

// Placed returns the new results.
func (b ResultBacklog) Placed() []Placed { return b.place }

// Waits reports whether the file of a result is about to be written, or all files of results
// to be removed.
func (b ResultBacklog) Waits(name string) bool {
	return b.wipes > 0 || slices.ContainsFunc(b.place, func(p Placed) bool { return p.Name == name })
}

// Work returns the work to be done for its files.
func (b ResultBacklog) Work() ResultWork {
	return ResultWork{Wipe: b.wipes > 0, Place: b.place, Drop: b.drop}
}

// Done takes out the work of a former state of the backlog. It returns false if none is
// left.
func (b *ResultBacklog) Done(was ResultBacklog) bool {
	if b.wipes == was.wipes {
		b.place = b.place[len(was.place):]
	}
	b.wipes -= was.wipes
	b.drop = b.drop[len(was.drop):]
	return b.wipes > 0 || len(b.place) > 0 || len(b.drop) > 0
}

// ResultWork is what the results of a job lack to be as they should.
type ResultWork struct {
	Wipe  bool     // all that are there go, except those placed now
	Place []Placed // new ones
	Drop  []string // temporary files of removed results
}

// Placed is a temporary file and its name as a result.
type Placed struct{ Temp, Name string }
