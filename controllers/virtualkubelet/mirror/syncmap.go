// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import "sync"

// syncMap is a typed map for concurrent use; its zero value is empty. It uses less memory for small values than
// sync.Map.
type syncMap[K, V comparable] struct {
	mu     sync.Mutex
	values map[K]V
}

// Load returns the value of a key, and whether the map has the key.
func (m *syncMap[K, V]) Load(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[key]
	return value, ok
}

// Swap sets the value of a key. It returns the previous value, and whether the map had the key.
func (m *syncMap[K, V]) Swap(key K, value V) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.values[key]
	if m.values == nil {
		m.values = map[K]V{}
	}
	m.values[key] = value
	return before, ok
}

// Delete removes a key.
func (m *syncMap[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}
