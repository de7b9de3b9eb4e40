package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"time"
)

const (
	magic        = "cutie history 1\n"
	headerSize   = 64
	nameSize     = 512
	maxName      = nameSize - 6
	recordSize   = 8 + 4*int(Measures)
	seriesSize   = nameSize + int(Spans)*Points*recordSize
	maxFile      = headerSize + (1+Queues)*seriesSize
	ringSize     = Points * recordSize
	seriesHeader = 6
)

// Open opens the history in a file, which is made if it is missing. A file of another
// form is emptied.
func Open(name string, now time.Time) (*History, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	h := &History{file: f, of: map[string]*series{}}
	if err := h.read(now); err != nil {
		return nil, errors.Join(fmt.Errorf("history: %w", err), f.Close())
	}
	return h, nil
}

// read reads the whole file.
func (h *History) read(now time.Time) error {
	data, err := io.ReadAll(io.LimitReader(h.file, int64(maxFile)))
	if err != nil {
		return err
	}
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		data = make([]byte, headerSize)
		copy(data, magic)
		if err := errors.Join(h.file.Truncate(0), writeAll(h.file, data, 0)); err != nil {
			return err
		}
	}
	for at, rest := 0, data[headerSize:]; len(rest) >= nameSize; at++ {
		size := min(seriesSize, len(rest))
		s := readSeries(at, rest[:size])
		h.series = append(h.series, s)
		if s.name != "" {
			s.used = now
			h.of[s.name] = s
		}
		rest = rest[size:]
	}
	if len(h.series) == 0 {
		h.series = append(h.series, &series{})
	}
	h.of[""] = h.series[0]
	return h.begin(h.series[0])
}

func writeAll(f *os.File, data []byte, at int64) error {
	_, err := f.WriteAt(data, at)
	return err
}

// readSeries reads a series; a damaged one is without name and records.
func readSeries(at int, data []byte) *series {
	s := &series{at: at}
	length := int(binary.LittleEndian.Uint16(data[4:]))
	if length > maxName {
		return s
	}
	head := data[4 : seriesHeader+length]
	if binary.LittleEndian.Uint32(data) != crc32.ChecksumIEEE(head) || at == 0 && length > 0 {
		return s
	}
	s.name = string(head[2:])
	for span := range Spans {
		for i := range Points {
			from := nameSize + int(span)*ringSize + i*recordSize
			if from+recordSize > len(data) {
				return s
			}
			if r, ok := readRecord(s.name, data[from:from+recordSize]); ok && r.number%Points == uint32(i) {
				s.ring[span][i] = r
			}
		}
	}
	return s
}

func readRecord(name string, data []byte) (r record, ok bool) {
	if binary.LittleEndian.Uint32(data) != checksum(name, data[4:]) {
		return r, false
	}
	r.number = binary.LittleEndian.Uint32(data[4:])
	for m := range r.point {
		r.point[m] = math.Float32frombits(binary.LittleEndian.Uint32(data[8+4*m:]))
	}
	return r, true
}

// checksum is never that of a record of zeros.
func checksum(name string, data []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(name+"\n")), crc32.IEEETable, data)
}

// begin writes the header of a series. Records of a former queue in its place do not
// verify under the new name.
func (h *History) begin(s *series) error {
	head := make([]byte, nameSize)
	binary.LittleEndian.PutUint16(head[4:], uint16(len(s.name)))
	copy(head[seriesHeader:], s.name)
	binary.LittleEndian.PutUint32(head, crc32.ChecksumIEEE(head[4:seriesHeader+len(s.name)]))
	return h.writeAt(head, int64(headerSize)+int64(s.at)*int64(seriesSize))
}

func (h *History) write(s *series, span Span, r record) error {
	data := make([]byte, recordSize)
	binary.LittleEndian.PutUint32(data[4:], r.number)
	for m, f := range r.point {
		binary.LittleEndian.PutUint32(data[8+4*m:], math.Float32bits(f))
	}
	binary.LittleEndian.PutUint32(data, checksum(s.name, data[4:]))
	at := headerSize + s.at*seriesSize + nameSize + int(span)*ringSize + int(r.number%Points)*recordSize
	return h.writeAt(data, int64(at))
}

// writeAt writes to the file. Without it, as after Close, memory alone goes on.
func (h *History) writeAt(data []byte, at int64) error {
	if h.file == nil {
		return nil
	}
	if err := writeAll(h.file, data, at); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return nil
}

// Close closes the file.
func (h *History) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.file
	if h.file = nil; f == nil {
		return nil
	}
	return f.Close()
}
