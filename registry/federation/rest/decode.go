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

	"liqo.io/federation/apiserver/apis/federation"
)

// onlyJSON is a serializer that refuses objects with values that JSON cannot represent. In protobuf, a string may have
// any bytes and an IntOrString any type. Such an object could not be listed as JSON, and a JSON patch of another field,
// for example of finalizers, would change the value.
type onlyJSON struct{ runtime.NegotiatedSerializer }

// DecoderToVersion returns a decoder that fails for objects with values that JSON cannot represent. It checks an object
// before converting it, so that the error has the path of the field in the version of the request.
func (s onlyJSON) DecoderToVersion(decoder runtime.Decoder, version runtime.GroupVersioner) runtime.Decoder {
	return s.NegotiatedSerializer.DecoderToVersion(jsonDecoder{decoder}, version)
}

type jsonDecoder struct{ runtime.Decoder }

// Decode decodes an object. defaults is the kind that the request requires; if it is a kind of this API, Decode fails
// for an object of another kind. Decode also fails for a value that protobuf can encode and JSON cannot, for example a
// string that is not valid UTF-8; the error has the path of the field. A strict decoding error suggests the nearest
// known field for each unknown one.
func (d jsonDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	object, kind, err := d.Decoder.Decode(data, defaults, into)
	ours := defaults != nil && kind != nil && defaults.Group == federation.GroupName
	if ours && (runtime.IsNotRegisteredError(err) || err == nil && kind.Kind != defaults.Kind) {
		return nil, kind, fmt.Errorf("apiVersion and kind must be %s and %s, not %.64q and %.64q",
			defaults.GroupVersion(), defaults.Kind, kind.GroupVersion(), kind.Kind)
	}
	if object != nil {
		if path, problem := notJSON(reflect.ValueOf(object)); problem != "" {
			return nil, kind, fmt.Errorf("%s: %s", strings.TrimPrefix(path, "."), problem)
		}
	}
	return object, kind, suggestFields(object, err)
}

// notJSON returns the path of the first field that JSON cannot represent, and the values that are accepted there. If
// every field can be represented, problem is empty.
func notJSON(value reflect.Value) (path, problem string) {
	switch value.Kind() {
	case reflect.String:
		if !utf8.ValidString(value.String()) {
			return "", "must be valid UTF-8"
		}
	case reflect.Pointer:
		return notJSON(value.Elem())
	case reflect.Slice, reflect.Array:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			return "", ""
		}
		for i := range value.Len() {
			if path, problem := notJSON(value.Index(i)); problem != "" {
				return fmt.Sprintf("[%d]%s", i, path), problem
			}
		}
	case reflect.Map:
		for entries := value.MapRange(); entries.Next(); {
			for _, part := range []reflect.Value{entries.Key(), entries.Value()} {
				if path, problem := notJSON(part); problem != "" {
					return fmt.Sprintf("[%q]%s", entries.Key(), path), problem
				}
			}
		}
	case reflect.Struct:
		switch value.Type() {
		case reflect.TypeFor[intstr.IntOrString]():
			if kind := value.Interface().(intstr.IntOrString).Type; kind != intstr.Int && kind != intstr.String {
				return "", "must be an integer or a string"
			}
		case reflect.TypeFor[time.Time]():
			if year := value.Interface().(time.Time).UTC().Year(); year < 0 || year > 9999 {
				return "", "must be in the years 0 to 9999"
			}
		}
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			if path, problem := notJSON(value.Field(i)); problem != "" {
				// In JSON, the fields of an embedded struct are fields of the outer object.
				if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
					path = "." + name + path
				}
				return path, problem
			}
		}
	}
	return "", ""
}
