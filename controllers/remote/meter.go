// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import "bytes"

const (
	// minElement is the number of bytes of a response that permit one element in addition to meter.free. Elements of
	// objects of Kubernetes are longer, because they have names and values.
	minElement = 64
	// maxDepth is the maximum depth of a JSON value. Objects of Kubernetes are less than 30 deep, apart from schemas,
	// which are not read from peers.
	maxDepth = 191
	// listDepth is the depth of the array of objects in a list.
	listDepth = 2
)

// meter counts the elements of JSON arrays, and the objects of lists and watches, while they are read, because an
// element takes much more memory than it has bytes: an empty offer has three bytes, and takes more than a kilobyte. It
// does not validate: what is not JSON is refused by the decoder.
type meter struct {
	// free is the number of elements that are admitted whatever the length of the response.
	free int64
	// perValue means that the limits apply to each value of a sequence, for example each event of a watch, instead of to
	// the whole response.
	perValue bool
	// watch means that the response is a watch: each value is an event.
	watch bool
	// unknown is true until the response begins, if its media type is not JSON. Some callers decode responses as JSON
	// with every media type, so elements are counted if the response begins like an object or array. skipped means that
	// the response is not counted.
	unknown, skipped bool

	bytes, elements int64
	// objects is the number of events of a watch, or of objects of a list: of values and, except in a watch, of elements
	// after the first one of arrays at listDepth.
	objects int64
	depth   int
	// arrays has a bit for each depth, which is set for an array.
	arrays           [(maxDepth + 1) / 64]uint64
	inString, escape bool
}

// admits counts the next bytes of the response, and reports whether the response is within the limits so far.
func (m *meter) admits(next []byte) bool {
	if m.unknown {
		if next = bytes.TrimLeft(next, " \t\r\n"); len(next) == 0 {
			return true
		}
		m.unknown, m.skipped = false, next[0] != '{' && next[0] != '['
	}
	if m.skipped {
		return true
	}
	for _, c := range next {
		m.bytes++
		switch {
		case m.escape:
			m.escape = false
		case m.inString:
			m.inString, m.escape = c != '"', c == '\\'
		case c == '"':
			m.inString = true
		case c == '{' || c == '[':
			if m.depth++; m.depth > maxDepth {
				return false
			}
			if m.depth == 1 {
				m.objects++
			}
			m.setArray(c == '[')
		case c == ',' && m.inArray():
			if m.depth == listDepth && !m.watch {
				m.objects++
			}
			if m.elements++; m.elements > m.free+m.bytes/minElement {
				return false
			}
		case (c == '}' || c == ']') && m.depth > 0:
			if m.depth--; m.depth == 0 && m.perValue {
				m.bytes, m.elements = 0, 0
			}
		}
	}
	return true
}

func (m *meter) inArray() bool { return m.arrays[m.depth/64]>>(m.depth%64)&1 == 1 }

func (m *meter) setArray(array bool) {
	mask := uint64(1) << (m.depth % 64)
	m.arrays[m.depth/64] &^= mask
	if array {
		m.arrays[m.depth/64] |= mask
	}
}
