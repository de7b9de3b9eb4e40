package set

import (
	"cutie/publisher/entries"
	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/sitemap"
)

// resultsPerJob is how many results a job of a page of the Resource List may have on
// average before the page has more than MaxEntries entries.
const resultsPerJob = 4

// perPage returns how many engine pages fit into a page of the Resource List.
func (s *Set) perPage() int {
	const reserve = 1 // for queue-info.txt
	perJob, bound := s.Kind.PerJob(), s.bound
	if s.Kind == names.Replica {
		bound += bound * resultsPerJob / perJob
		perJob += resultsPerJob
	}
	n := min((s.MaxEntries-reserve)/(queuefs.PageJobs*perJob), int(s.limit())/(queuefs.PageJobs*bound))
	return max(1, n)
}

// limit returns how many bytes of entries a document may have.
func (s *Set) limit() int64 { return s.MaxBytes - 4096 - 2*int64(len(s.Refs.Docs[names.Pending])) }

// Fits reports whether one document may have n entries of jobs.
func (s *Set) Fits(n int) bool {
	if s.Kind == names.Replica {
		n++ // queue-info.txt
	}
	return n <= s.MaxEntries && int64(n)*int64(s.bound) <= s.limit()*int64(s.Kind.PerJob())
}

// PerDocument returns how many entries about documents one document may have:
// an entry has two references at most, times, a length and a digest.
func (s *Set) PerDocument() int {
	size := 2*(len(s.Refs.Docs[s.Kind])+64) + 512
	return max(2, min(sitemap.MaxEntries, int(s.limit())/size))
}

// perIndex returns how many entries the Change List Index and the Change Dump may
// have; archives have the rest.
func (s *Set) perIndex() int { return min(s.MaxEntries, s.PerDocument()) }

// Between returns the engine pages from lo up to hi.
func (s *Set) Between(lo, hi int, plain bool) Pages {
	p := Pages{Queue: s.Queue, Set: s.Kind, Lo: lo, Hi: hi, Render: s.Renderer}
	if plain {
		p.Render = s.plainRenderer
	}
	return p
}

// Info returns the facts of queue-info.txt if a document from engine page lo on has it.
func (s *Set) Info(lo int) *queuefs.Facts {
	if s.Kind != names.Replica || lo > 0 {
		return nil
	}
	_, facts := s.Queue.InfoFile()
	return &facts
}

func (s *Set) plainRenderer() entries.Renderer {
	r := s.Renderer()
	r.Plain = true
	return r
}
