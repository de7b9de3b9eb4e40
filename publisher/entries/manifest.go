package entries

import (
	"bufio"
	"bytes"
	"io"

	"cutie/sitemap"
)

var (
	eventMark    = []byte(` cut:event="`)
	deletionMark = []byte(` change="` + sitemap.Deleted + `"`)
	pathMark     = []byte(` path="`)
	entryMark    = []byte("<url>")
)

// HasFile reports whether the entry in a line of a Change List comes with a file in a
// package: it is no deletion.
func HasFile(line []byte) bool { return !bytes.Contains(line, deletionMark) }

// AppendPacked appends a line of a Change List as it stands in the manifest of a package.
// path is that of its file, empty without one.
func AppendPacked(dst, line, path []byte) []byte {
	if i := bytes.Index(line, eventMark); i >= 0 && len(path) > 0 {
		dst = append(append(dst, line[:i]...), pathMark...)
		dst = append(append(dst, path...), '"')
		line = line[i:]
	}
	return append(dst, line...)
}

// CopyUnpacked writes the entries of a manifest as they stand in the Change List: it
// undoes [AppendPacked].
func CopyUnpacked(w io.Writer, manifest io.Reader) error {
	in := bufio.NewReaderSize(manifest, 2*MaxEntry)
	for {
		line, err := in.ReadSlice('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(line, entryMark) {
			continue // of head or foot
		}
		if before, rest, ok := bytes.Cut(line, pathMark); ok { // a text has no quotation mark
			if _, err := w.Write(before); err != nil {
				return err
			}
			_, line, _ = bytes.Cut(rest, []byte{'"'})
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}
