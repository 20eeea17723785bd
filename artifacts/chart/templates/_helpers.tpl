{{- /*
# Copyright The Liqo Federation Authors.
# SPDX-License-Identifier: Apache-2.0
*/ -}}

{{- /* The labels of every object. The argument is a dict with root and component. */ -}}
{{- define "federation.labels" -}}
{{ include "federation.selector" . }}
app.kubernetes.io/version: {{ include "federation.tag" .root | quote }}
app.kubernetes.io/part-of: liqo-federation
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "federation.selector" -}}
app.kubernetes.io/name: {{ .component }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{- define "federation.tag" -}}
{{ .Values.images.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* The reference of a program's image. The argument is a dict with root and component. */ -}}
{{- define "federation.image" -}}
{{ .root.Values.images.repository }}/{{ .component }}:{{ include "federation.tag" .root }}
{{- with get (.root.Values.images.digests | default dict) .component }}@{{ . }}{{ end }}
{{- end }}

{{- /* The requirements of the Pod Security Standard "restricted". */ -}}
{{- define "federation.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "federation.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "federation.env" -}}
- name: GOMEMLIMIT
  value: {{ .goMemoryLimit | quote }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_IP
  valueFrom:
    fieldRef:
      fieldPath: status.podIP
{{- end }}

{{- /* A start may take two minutes, to recover a store. Later, a minute without an answer restarts the pod;
shorter times without one are normal on a busy machine. The argument is a dict with exclude, a list of
checks that liveness and readiness ignore. */ -}}
{{- define "federation.probes" -}}
{{- $query := "" -}}
{{- range .exclude }}{{ $query = printf "%s%sexclude=%s" $query (ternary "&" "?" (ne $query "")) . }}{{ end -}}
startupProbe:
  httpGet: {path: /livez, port: https, scheme: HTTPS}
  periodSeconds: 1
  timeoutSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: {path: "/livez{{ $query }}", port: https, scheme: HTTPS}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: "/readyz{{ $query }}", port: https, scheme: HTTPS}
  periodSeconds: 2
  timeoutSeconds: 5
{{- end }}

{{- /* The Deployment of a controller manager. The argument is a dict with root, component, values, args, and
control, which is set if it connects to providers through the proxy of the gateway. */ -}}
{{- define "federation.controllers" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "federation.labels" . | nindent 4 }}
spec:
  # One replica is the leader. The others are standby, and keep their caches filled.
  replicas: {{ .values.replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels: {{- include "federation.selector" . | nindent 6 }}
  template:
    metadata:
      labels: {{- include "federation.labels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .component }}
      securityContext: {{- include "federation.podSecurityContext" .root | nindent 8 }}
      {{- include "federation.spread" . | nindent 6 }}
      containers:
        - name: controller-manager
          image: {{ include "federation.image" (dict "root" .root "component" "federation-controller-manager") }}
          imagePullPolicy: {{ .root.Values.images.pullPolicy }}
          args:
            - --secure-port=8443
            - --tls-cert-file=/etc/federation/tls/tls.crt
            - --tls-private-key-file=/etc/federation/tls/tls.key
            - --namespace={{ .root.Release.Namespace }}
            - --invitation-namespace={{ .root.Values.invitationNamespace }}
            - --storage-namespace={{ .root.Values.storage.namespace }}
            - --logging-format={{ .root.Values.logFormat }}
            - --v=1
            {{- range .args }}
            - {{ . | quote }}
            {{- end }}
          env: {{- include "federation.env" .values | nindent 12 }}
          ports:
            - {name: https, containerPort: 8443}
          {{- include "federation.probes" dict | nindent 10 }}
          resources: {{- toYaml .values.resources | nindent 12 }}
          securityContext: {{- include "federation.containerSecurityContext" .root | nindent 12 }}
          volumeMounts:
            - {name: tls, mountPath: /etc/federation/tls, readOnly: true}
            - {name: tmp, mountPath: /tmp}
            {{- if .control }}
            - {name: control, mountPath: /etc/federation/control, readOnly: true}
            {{- end }}
      volumes:
        - name: tls
          secret:
            secretName: {{ .component }}-tls
        - name: tmp
          emptyDir: {}
        {{- if .control }}
        # The authority that signed the certificate of the gateway's proxy, and a token for the proxy.
        - name: control
          projected:
            defaultMode: 0440
            sources:
              - secret:
                  name: federation-control-tls
                  optional: true
                  items:
                    - {key: ca.crt, path: ca.crt}
              - serviceAccountToken:
                  audience: federation-control
                  expirationSeconds: 3600
                  path: token
        {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "federation.labels" . | nindent 4 }}
spec:
  selector: {{- include "federation.selector" . | nindent 4 }}
  ports:
    - {name: https, port: 443, targetPort: https}
{{ include "federation.disruptionBudget" . }}
{{- end }}

{{- /* Spreads replicas over nodes if possible. The argument is a dict with root and component. */ -}}
{{- define "federation.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "federation.selector" . | nindent 8 }}
{{- end }}

{{- /* Lets one of several replicas be evicted at a time. A single replica gets no PodDisruptionBudget: with
one, its node could never be drained. The argument is a dict with root, component and values. */ -}}
{{- define "federation.disruptionBudget" -}}
{{- if gt (int .values.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "federation.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels: {{- include "federation.selector" . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* The Role for leader election, with a Lease that has the name of the account. RBAC cannot restrict
create by name. The argument is a dict with root and component. */ -}}
{{- define "federation.leaderElection" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .component }}-leader-election
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "federation.labels" . | nindent 4 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create]
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    resourceNames: [{{ .component }}]
    verbs: [get, update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .component }}-leader-election
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "federation.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .component }}-leader-election
subjects: {{- include "federation.account" (dict "name" .component "namespace" .root.Release.Namespace) | nindent 2 }}
{{- end }}

{{- /* The files in the API server's ConfigMap, for tracing and auditing; empty if both are disabled. */ -}}
{{- define "federation.apiserverFiles" -}}
{{- with .Values.apiserver.tracing }}
{{- if .endpoint }}
tracing.yaml: |
  apiVersion: apiserver.config.k8s.io/v1
  kind: TracingConfiguration
  endpoint: {{ .endpoint }}
  samplingRatePerMillion: {{ int .samplingRatePerMillion }}
{{- end }}
{{- end }}
{{- with .Values.apiserver.audit.rules }}
audit.yaml: |
  apiVersion: audit.k8s.io/v1
  kind: Policy
  rules: {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{- /* The subjects of a binding to one account. The argument is a dict with name and namespace. */ -}}
{{- define "federation.account" -}}
- kind: ServiceAccount
  name: {{ .name }}
  namespace: {{ .namespace }}
{{- end }}

{{- /* The affinity to Linux nodes that are not virtual nodes, which have no kernel. */ -}}
{{- define "federation.realNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions:
          - {key: liqo.io/type, operator: NotIn, values: [virtual-node]}
          - {key: kubernetes.io/os, operator: In, values: [linux]}
{{- end }}

{{- /* The pod of a network agent. It is privileged because it writes /proc/sys, and creates network namespaces
that remain when it ends, for which Kubernetes has no narrower permission. The argument is a dict with root,
program, port (of probes and metrics, on a loopback address), values, args and, for the gateway, secret. */ -}}
{{- define "federation.netagent" -}}
serviceAccountName: {{ .program }}
hostNetwork: true
dnsPolicy: Default
terminationGracePeriodSeconds: 30
containers:
  - name: {{ .program }}
    image: {{ include "federation.image" (dict "root" .root "component" .program) }}
    imagePullPolicy: {{ .root.Values.images.pullPolicy }}
    args:
      - --node-name=$(NODE_NAME)
      - --listen=127.0.0.1:{{ .port }}
      {{- range .args }}
      - {{ . | quote }}
      {{- end }}
    env:
      - name: GOMEMLIMIT
        value: {{ .values.goMemoryLimit | quote }}
      - name: NODE_NAME
        valueFrom:
          fieldRef:
            fieldPath: spec.nodeName
    livenessProbe:
      httpGet: {scheme: HTTPS, host: 127.0.0.1, path: /livez, port: {{ .port }}}
      periodSeconds: 10
      timeoutSeconds: 10
      failureThreshold: 6
    readinessProbe:
      httpGet: {scheme: HTTPS, host: 127.0.0.1, path: /readyz, port: {{ .port }}}
      periodSeconds: 2
      timeoutSeconds: 5
    resources: {{- toYaml .values.resources | nindent 6 }}
    securityContext:
      privileged: true
      readOnlyRootFilesystem: true
      runAsUser: 0
    volumeMounts:
      - {name: netns, mountPath: /run/netns, mountPropagation: Bidirectional}
      - {name: xtables, mountPath: /run/xtables.lock}
      {{- if .control }}
      - {name: control, mountPath: /etc/federation/control, readOnly: true}
      {{- end }}
volumes:
  - name: netns
    hostPath: {path: /run/netns, type: DirectoryOrCreate}
  - name: xtables
    hostPath: {path: /run/xtables.lock, type: FileOrCreate}
  {{- if .control }}
  - name: control
    secret:
      secretName: federation-control-tls
      # The Secret is required for peerings with spec.mode InBand only.
      optional: true
      defaultMode: 0400
      items:
        - {key: tls.crt, path: tls.crt}
        - {key: tls.key, path: tls.key}
  {{- end }}
{{- end }}
