package tree

import (
	"bytes"
	"io"
	"os"

	"cutie/queuefs/durable"
)

// A Payload is the content of a job, to be closed after use. It stays
// readable even when the job is culled meanwhile.
type Payload struct {
	io.ReadSeeker
	size int64
	file *os.File
}

// PayloadOf returns a payload in memory.
func PayloadOf(data []byte) *Payload {
	return &Payload{ReadSeeker: bytes.NewReader(data), size: int64(len(data))}
}

// PayloadIn returns a payload of size octets in a file.
func PayloadIn(f *os.File, size int64) *Payload {
	return &Payload{ReadSeeker: f, size: size, file: f}
}

// Size returns the octets of the payload.
func (p *Payload) Size() int64 { return p.size }

// Close lets go of the payload.
func (p *Payload) Close() error {
	if p.file != nil {
		return p.file.Close()
	}
	return nil
}

// WriteTo writes the rest of the payload to w for a consumer, the last reader
// of it. For one of many readers use Read or SendTo.
func (p *Payload) WriteTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return durable.CopyOnce(w, p.file)
	}
	return p.ReadSeeker.(*bytes.Reader).WriteTo(w)
}

// SendTo is WriteTo for one of many readers of the payload: it goes from the
// page cache to the connection without passing through the program.
func (p *Payload) SendTo(w io.Writer) (int64, error) {
	if p.file != nil {
		return io.Copy(w, p.file)
	}
	return p.WriteTo(w)
}
