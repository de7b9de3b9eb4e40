package entries

import (
	"bufio"
	"bytes"
	"io"

	"cutie/publisher/names"
	"cutie/queuefs"
	"cutie/queuefs/job"
	"cutie/sitemap"
)

var (
	eventMark     = []byte(` cut:event="`)
	deletionMark  = []byte(` change="` + sitemap.Deleted + `"`)
	describedMark = []byte(`<rs:ln rel="` + sitemap.RelDescribedBy + `" href="`)
	queuesSegment = []byte("/queues/")
	stateSegment  = []byte("/state")
	pathMark      = []byte(` path="`)
	entryMark     = []byte("<url>")
	seqMark       = []byte(` cut:seq="`)
	locMark       = []byte("<loc>")
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

// CopyUnpacked writes the entries of a manifest as they stand in the Change List: it
// undoes [AppendPacked]. Kinds of events and entries of job files tell the status that a
// job had; without the entry of a job file the text is another one.
func CopyUnpacked(w io.Writer, manifest io.Reader, set names.Set) error {
	in := bufio.NewReaderSize(manifest, 2*MaxEntry)
	var event [][]byte // lines of an event
	var buf []byte
	end := func() error {
		buf = buf[:0]
		status := statusOf(event, set)
		for _, line := range event {
			buf = appendUnpacked(buf, line, status)
		}
		event = event[:0]
		_, err := w.Write(buf)
		return err
	}
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return end()
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, entryMark) {
			continue // of head or foot
		}
		if len(event) > 0 && !bytes.Equal(after(event[0], seqMark), after(line, seqMark)) {
			if err := end(); err != nil {
				return err
			}
		}
		event = append(event, bytes.Clone(line))
	}
}

// after returns the text after a mark up to the next quotation mark or tag.
func after(line, mark []byte) []byte {
	_, rest, _ := bytes.Cut(line, mark)
	return rest[:max(bytes.IndexAny(rest, `"<`), 0)]
}

// statusOf returns the directory of the job file after an event.
func statusOf(event [][]byte, set names.Set) []byte {
	if set == names.Pending && len(event) > 0 {
		status := queuefs.Pending
		switch kind, _ := job.ParseKind(string(after(event[0], eventMark))); kind {
		case queuefs.Consume:
			status = queuefs.Consumed
		case queuefs.Delete:
			status = queuefs.Deleted
		}
		return []byte(status.String())
	}
	for _, line := range event {
		loc := after(line, locMark)
		dir := loc[:max(bytes.LastIndexByte(loc, '/'), 0)]
		dir = dir[bytes.LastIndexByte(dir, '/')+1:]
		if _, err := job.ParseStatus(string(dir)); err == nil && HasFile(line) {
			return dir
		}
	}
	return nil
}

// appendUnpacked appends a line of a manifest as it stands in the list.
func appendUnpacked(dst, line, status []byte) []byte {
	if before, rest, ok := bytes.Cut(line, pathMark); ok { // a text has no quotation mark
		_, rest, _ = bytes.Cut(rest, []byte{'"'})
		dst, line = append(dst, before...), rest
	}
	for {
		before, rest, ok := bytes.Cut(line, describedMark)
		dst = append(dst, before...)
		if !ok {
			return dst
		}
		n := max(bytes.IndexByte(rest, '"'), 0)
		dst, line = appendJobFile(append(dst, describedMark...), rest[:n], status), rest[n:]
	}
}

// appendJobFile undoes appendState.
func appendJobFile(dst, loc, status []byte) []byte {
	job := bytes.LastIndexByte(loc, '/')
	queue := bytes.LastIndexByte(loc[:max(job, 0)], '/')
	site, ok := bytes.CutSuffix(loc[:max(queue, 0)], stateSegment)
	if !ok {
		return append(dst, loc...)
	}
	dst = append(append(dst, site...), queuesSegment...)
	dst = append(append(dst, loc[queue+1:job+1]...), status...)
	return append(dst, loc[job:]...)
}
