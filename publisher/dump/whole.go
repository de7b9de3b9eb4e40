package dump

import (
	"archive/zip"
	"bytes"
	"io"
	"os"

	"cutie/sitemap"
)

// Whole reads a package and compares all checks in it. It returns the head of the
// manifest and the number of its entries.
func Whole(file *os.File) (head sitemap.Head, entries int, err error) {
	st, err := file.Stat()
	if err != nil {
		return head, 0, err
	}
	z, err := zip.NewReader(file, st.Size())
	if err != nil {
		return head, 0, err
	}
	var manifest bytes.Buffer
	for i, member := range z.File {
		to := io.Discard
		if i == 0 {
			to = &manifest
		}
		r, err := member.Open()
		if err != nil {
			return head, 0, err
		}
		_, err = io.Copy(to, r) // compares the CRC-32
		r.Close()
		if err != nil {
			return head, 0, err
		}
	}
	r := sitemap.NewReader(&manifest)
	if _, head, err = r.ReadHead(); err != nil {
		return head, 0, err
	}
	for {
		if _, err := r.Read(); err == io.EOF {
			return head, entries, nil
		} else if err != nil {
			return head, 0, err
		}
		entries++
	}
}
