// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// onlyJSON decodes what clients send, and refuses values that JSON cannot represent. In
// protobuf a string may be any bytes, and a union of two kinds may be of neither. A stored
// object of that form could not be listed as JSON, and a patch of another field, for example
// of finalizers, would change it.
type onlyJSON struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns a decoder that refuses these objects. It checks them before the
// conversion, in the version that names their fields.
func (s onlyJSON) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return s.NegotiatedSerializer.DecoderToVersion(jsonDecoder{decoder}, version)
}

type jsonDecoder struct{ runtime.Decoder }

// Decode returns an error that names the field which JSON cannot represent.
func (d jsonDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	if object != nil {
		if path, why := notJSON(reflect.ValueOf(object)); why != "" {
			return nil, kind, fmt.Errorf("%s: %s", strings.TrimPrefix(path, "."), why)
		}
	}
	return object, kind, err
}

// notJSON returns the first field of a value that JSON cannot represent, and the reason; both
// are empty if there is none.
func notJSON(value reflect.Value) (path, why string) {
	switch value.Kind() {
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			return "", "is not valid UTF-8"
		}
	case reflect.Pointer:
		return notJSON(value.Elem())
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return "", ""
		}
		for i := range value.Len() {
			if path, why := notJSON(value.Index(i)); why != "" {
				return fmt.Sprintf("[%d]%s", i, path), why
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			for _, part := range []reflect.Value{entries.Key(), entries.Value()} {
				if path, why := notJSON(part); why != "" {
					return fmt.Sprintf("[%q]%s", entries.Key(), path), why
				}
			}
		}
	case reflect.Struct:
		switch value.Type() {
		case reflect.TypeFor[intstr.IntOrString]():
			if kind := value.Interface().(intstr.IntOrString).Type; kind != intstr.Int && kind != intstr.String {
				return "", "is neither a number nor a text"
			}
		case reflect.TypeFor[time.Time]():
			if year := value.Interface().(time.Time).UTC().Year(); year < 0 || year > 9999 {
				return "", "is not in a year of four digits"
			}
		}
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			if path, why := notJSON(value.Field(i)); why != "" {
				// Without a name it is one with what it is in.
				if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
					path = "." + name + path
				}
				return path, why
			}
		}
	}
	return "", ""
}
