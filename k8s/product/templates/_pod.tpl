{{/*
One pod of the product, as every part has it. Arguments: root, part, component (if it is not the part), command, resources,
grace (seconds), cluster (whether it talks to clusters), port (0: none), check (where a Gateway asks; 0: none), probe (path of
readiness and start), alive (path of liveness), tells (whether it touches a file while it lives, as what has no port does),
traced (whether it sends traces), environment (further variables), restart.
*/}}
{{- define "allotment.pod" -}}
{{- $values := .root.Values -}}
{{- $inCluster := and .cluster $values.inCluster.enabled -}}
{{- $kubeconfigs := and .cluster $values.kubeconfigs.existingSecret -}}
metadata:
  labels:
    {{- include "allotment.labels" . | nindent 4 }}
    {{- include "allotment.stops" . | nindent 4 }}
  {{- with $values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- if .restart }}
  restartPolicy: {{ .restart }}
  {{- end }}
  serviceAccountName: {{ ternary "allotment-controller" "default" (not (not $inCluster)) }}
  automountServiceAccountToken: false
  # Else a Service called allotment-door would set ALLOTMENT_DOOR_PORT.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .grace }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- with $values.imagePullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . | quote }}
    {{- end }}
  {{- end }}
  {{- with $values.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "allotment.selector" . | nindent 10 }}
  containers:
    - name: {{ .component | default .part }}
      image: {{ include "allotment.image" .root | quote }}
      imagePullPolicy: {{ $values.image.pullPolicy }}
      command:
        {{- toYaml .command | nindent 8 }}
      env:
        {{- include "allotment.environment" .root | nindent 8 }}
        {{- with .environment }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- if and .traced $values.tracing.endpoint }}
        {{- include "allotment.tracing" .root | nindent 8 }}
        {{- end }}
        {{- if .tells }}
        - {name: ALLOTMENT_ALIVE_FILE, value: /tmp/alive}
        {{- end }}
      {{- if .port }}
      ports:
        - {name: http, containerPort: {{ .port }}, protocol: TCP}
        {{- if .check }}
        - {name: check, containerPort: {{ .check }}, protocol: TCP}
        {{- end }}
      # The portal answers its own hosts alone, and a probe comes to the pod's address.
      startupProbe:
        httpGet: {path: {{ .alive }}, port: http, httpHeaders: [{name: Host, value: localhost}]}
        periodSeconds: 2
        timeoutSeconds: 5
        failureThreshold: 60
      readinessProbe:
        httpGet: {path: {{ .probe }}, port: http, httpHeaders: [{name: Host, value: localhost}]}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 2
      livenessProbe:
        httpGet: {path: {{ .alive }}, port: http, httpHeaders: [{name: Host, value: localhost}]}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      # Until every proxy knows that it goes, requests still come.
      lifecycle:
        preStop: {sleep: {seconds: 5}}
      {{- else if .tells }}
      # A rollout goes on once the new process has touched its file, and one that no longer does is started anew.
      startupProbe:
        exec: {command: {{ include "allotment.told" . }}}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 60
      livenessProbe:
        exec: {command: {{ include "allotment.told" . }}}
        periodSeconds: 15
        timeoutSeconds: 5
        failureThreshold: 4
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if $inCluster }}
        - {name: in-cluster, mountPath: /etc/allotment/in-cluster, readOnly: true}
        {{- end }}
        {{- if $kubeconfigs }}
        - {name: kubeconfigs, mountPath: /etc/allotment/kubeconfigs, readOnly: true}
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: 1Gi}
    {{- if $inCluster }}
    # All in one volume: the kubelet writes all of it anew with each token, and a kubeconfig that is new is read again.
    - name: in-cluster
      projected:
        sources:
          - serviceAccountToken: {path: token, expirationSeconds: 3600}
          - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
          - configMap: {name: {{ include "allotment.name" (dict "root" .root "part" "in-cluster") }}, items: [{key: kubeconfig, path: kubeconfig}]}
    {{- end }}
    {{- if $kubeconfigs }}
    - name: kubeconfigs
      secret: {secretName: {{ $values.kubeconfigs.existingSecret | quote }}}
    {{- end }}
    {{- with $values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* Whether the file was touched within 30 s. Without the product: reading it would take a second of a core at each look. */}}
{{- define "allotment.told" -}}
[python, -I, -c, "import os, time; raise SystemExit(time.time() - os.stat('/tmp/alive').st_mtime > 30)"]
{{- end }}

{{/* By this label docs/installing.md stops, before an upgrade, what may not work beside the next version. */}}
{{- define "allotment.stops" -}}
{{- if .stops }}allotment.dev/stops-for-upgrades: "true"{{ end }}
{{- end }}

{{/* A Deployment's frame. Arguments: those of the pod, and replicas (absent: an autoscaler's) and strategy. */}}
{{- define "allotment.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "allotment.labels" . | nindent 4 }}
    {{- include "allotment.stops" . | nindent 4 }}
spec:
  {{- if hasKey . "replicas" }}
  replicas: {{ .replicas }}
  {{- end }}
  revisionHistoryLimit: 3
  selector:
    matchLabels:
      {{- include "allotment.selector" . | nindent 6 }}
  strategy:
    {{- toYaml .strategy | nindent 4 }}
  template:
    {{- include "allotment.pod" . | nindent 4 }}
{{- end }}

{{/* No eviction takes the last pod of a part; nothing of the kind for a single one, which could then never be moved. */}}
{{- define "allotment.disruption" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "allotment.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "allotment.selector" . | nindent 6 }}
{{- end }}

{{- define "allotment.service" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "allotment.name" . }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "allotment.labels" . | nindent 4 }}
spec:
  selector:
    {{- include "allotment.selector" . | nindent 4 }}
  ports:
    - {name: http, port: 80, targetPort: http, protocol: TCP}
    {{- if .check }}
    # Routes that the product writes know both by the numbers that the door listens at.
    - {name: door, port: {{ .port }}, targetPort: http, protocol: TCP}
    - {name: check, port: {{ .check }}, targetPort: check, protocol: TCP}
    {{- end }}
{{- end }}
