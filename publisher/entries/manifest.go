package entries

import (
	"bytes"

	"cutie/sitemap"
)

var (
	eventMark     = []byte(` cut:event="`)
	deletionMark  = []byte(` change="` + sitemap.Deleted + `"`)
	describedMark = []byte(`<rs:ln rel="` + sitemap.RelDescribedBy + `" href="`)
	queuesSegment = []byte("/queues/")
)

// HasFile reports whether the entry in a line of a Change List comes with a file in a
// package: it is no deletion.
func HasFile(line []byte) bool { return !bytes.Contains(line, deletionMark) }

// AppendPacked appends a line of a Change List as it stands in the manifest of a package.
// path is that of its file, empty without one. The job is described by its state, since
// its job file moves with each change.
func AppendPacked(dst, line, path []byte) []byte {
	if len(path) > 0 {
		if i := bytes.Index(line, eventMark); i >= 0 {
			dst = append(append(dst, line[:i]...), ` path="`...)
			dst = append(append(dst, path...), '"')
			line = line[i:]
		}
	}
	for {
		i := bytes.Index(line, describedMark)
		if i < 0 {
			return append(dst, line...)
		}
		i += len(describedMark)
		dst, line = append(dst, line[:i]...), line[i:]
		n := max(bytes.IndexByte(line, '"'), 0)
		dst = appendState(dst, line[:n])
		line = line[n:]
	}
}

// appendState appends the reference of the state of a job instead of that of its job
// file: SITE/queues/QUEUE/STATUS/JOB becomes SITE/state/QUEUE/JOB.
func appendState(dst, loc []byte) []byte {
	job := bytes.LastIndexByte(loc, '/')
	status := bytes.LastIndexByte(loc[:max(job, 0)], '/')
	queue := bytes.LastIndexByte(loc[:max(status, 0)], '/')
	site, ok := bytes.CutSuffix(loc[:queue+1], queuesSegment)
	if !ok {
		return append(dst, loc...)
	}
	dst = append(append(dst, site...), "/state"...)
	return append(append(dst, loc[queue:status]...), loc[job:]...)
}
