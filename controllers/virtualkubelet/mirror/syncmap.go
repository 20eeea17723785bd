// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package mirror

import "sync"

// syncMap is a map for several goroutines; its zero value is empty. It is like
// sync.Map, with types, and holds small values in less room.
type syncMap[K, V comparable] struct {
	mu     sync.Mutex
	values map[K]V
}

// Load returns the value of a key, and whether there is one.
func (m *syncMap[K, V]) Load(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, ok := m.values[key]
	return value, ok
}

// Store gives a key a value.
func (m *syncMap[K, V]) Store(key K, value V) { m.Swap(key, value) }

// Swap gives a key a value, and returns the one that it had, if it had one.
func (m *syncMap[K, V]) Swap(key K, value V) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.values[key]
	m.set(key, value)
	return before, ok
}

// LoadOrStore returns the value of a key, and whether it had one; else it has
// this one now.
func (m *syncMap[K, V]) LoadOrStore(key K, value V) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.values[key]; ok {
		return known, true
	}
	m.set(key, value)
	return value, false
}

// Delete forgets a key.
func (m *syncMap[K, V]) Delete(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
}

// CompareAndDelete forgets a key if it still has that value.
func (m *syncMap[K, V]) CompareAndDelete(key K, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.values[key]; ok && known == value {
		delete(m.values, key)
	}
}

func (m *syncMap[K, V]) set(key K, value V) {
	if m.values == nil {
		m.values = map[K]V{}
	}
	m.values[key] = value
}
